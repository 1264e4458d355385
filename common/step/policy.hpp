#pragma once
// Choices of a step that are not hyper-parameters: divisor, skipping, rounding of parameters (R6).

#include <cstdint>
#include <string_view>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/step/state_format.hpp"

namespace zeroproof {

/// Divisor of the gradient sum: the number of micro-batches, or the tokens of all of them.
enum class LossReduction : std::uint8_t { mean, tokens };

/// Behaviour of a step with a non-finite unscaled gradient.
enum class OnNonfinite : std::uint8_t { skip, error, propagate };

/// Behaviour of a step for a tensor without a gradient from any micro-batch.
enum class MissingGrad : std::uint8_t { zero, skip };

/// Rounding of the master to the parameter (R8).
enum class ParamRounding : std::uint8_t { nearest, stochastic };

/// Distribution of micro-batches over data ranks (R11). by_stage: contiguous in stages 0 and 1, strided in 2 and 3.
enum class MicroBatchOrder : std::uint8_t { by_stage, contiguous, strided };

/// Summation of the micro-batch gradients (R11). tree: the contract's order. binned: exact integers in bins, another contract, for any
/// order. native: the communication library adds floats; compared with bounds, never bitwise.
enum class GradSum : std::uint8_t { tree, binned, native };

/// Shared memory of ranks of one machine. off: every rank sends data to the others. on: gradients,
/// nodes and shards are in memory that the ranks of the machine can read, if the communicator has
/// such memory; others get messages. params: the gathered parameters of stages 1 and 2, too, are
/// one copy per machine instead of one per rank. It never changes a bit.
enum class Windows : std::uint8_t { off, on, params };

/// Transport between ranks with device buffers. copies: from each other's device memory, between threads
/// of one process. nccl: the NVIDIA Collective Communications Library. It never changes a bit, except in native sums.
enum class Transport : std::uint8_t { copies, nccl };

/// Choice of a rank's offloaded elements. flat: the first ones in flat order, split at any element.
/// tensors: whole tensors (a rank's part of them), param group by param group, until they reach the
/// fraction.
enum class OffloadOrder : std::uint8_t { flat, tensors };

/// Place of the state of offloaded elements: host memory, or a file. It never changes a bit.
enum class OffloadPlace : std::uint8_t { host, file };

/// Names in configuration files and reports, in the order of the enumerators.
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
