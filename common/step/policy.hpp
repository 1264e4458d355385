#pragma once
// Choices of a step that are not hyper-parameters: what is divided by, what is skipped, how parameters are rounded
// (R6).

#include <cstdint>
#include <string_view>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/step/state_format.hpp"

namespace zeroproof {

/// What the gradient sum is divided by: the number of micro-batches, or the tokens of all of them.
enum class LossReduction : std::uint8_t { mean, tokens };

/// What a step does when an unscaled gradient is not finite.
enum class OnNonfinite : std::uint8_t { skip, error, propagate };

/// What a step does with a tensor no micro-batch gives a gradient to.
enum class MissingGrad : std::uint8_t { zero, skip };

/// How master becomes the parameter (R8).
enum class ParamRounding : std::uint8_t { nearest, stochastic };

/// Which micro-batches a data rank computes (R11). by_stage: contiguous in stages 0 and 1, strided in 2 and 3.
enum class MicroBatchOrder : std::uint8_t { by_stage, contiguous, strided };

/// How leaves are added up (R11). tree: the contract's order. binned: exact integers in bins, another contract, for any
/// order. native: the communication library adds floats; judged by bounds, never by bits.
enum class GradSum : std::uint8_t { tree, binned, native };

/// Whether ranks of one machine work in each other's memory. off: every rank sends what others need. on: leaves, nodes
/// and shards lie where the ranks of the machine can read them, if the communicator has such memory; others get
/// messages. params: the gathered parameters of stages 1 and 2, too, are one copy for a machine instead of one for each
/// rank. It never changes a bit.
enum class Windows : std::uint8_t { off, on, params };

/// What moves data between ranks whose buffers lie on devices. copies: from each other's device memory, between threads
/// of one process. nccl: the NVIDIA Collective Communications Library. It never changes a bit, except in native sums.
enum class Transport : std::uint8_t { copies, nccl };

/// Which elements of a rank are offloaded. flat: the first ones in flat order, cut at any element. tensors: whole
/// tensors
/// (a rank's part of them), param group by param group, until they have as many elements as the fraction asks for.
enum class OffloadOrder : std::uint8_t { flat, tensors };

/// Where the state of offloaded elements lies: in memory of the host, or in a file. It never changes a bit.
enum class OffloadPlace : std::uint8_t { host, file };

/// Names as configuration files and reports spell them, in the order of the enumerators.
Span<const std::string_view> names_of(UpdateRule);
Span<const std::string_view> names_of(NormForm);
Span<const std::string_view> names_of(LossReduction);
Span<const std::string_view> names_of(OnNonfinite);
Span<const std::string_view> names_of(MissingGrad);
Span<const std::string_view> names_of(ParamRounding);
Span<const std::string_view> names_of(MicroBatchOrder);
Span<const std::string_view> names_of(GradSum);
Span<const std::string_view> names_of(Windows);
Span<const std::string_view> names_of(Transport);
Span<const std::string_view> names_of(OffloadOrder);
Span<const std::string_view> names_of(OffloadPlace);
Span<const std::string_view> names_of(StateFormat);
Span<const std::string_view> names_of(MasterFormat);

template <class Choice>
std::string_view name(Choice choice) requires requires {
  names_of(choice);
}
{ return names_of(choice)[static_cast<std::size_t>(choice)]; }

}  // namespace zeroproof
