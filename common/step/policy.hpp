#pragma once
// Choices of a step that are not hyper-parameters: what is divided by, what is skipped, how parameters are rounded (R6).

#include <cstdint>
#include <string_view>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof {

/// What the gradient sum is divided by: the number of micro-batches, or the tokens of all of them.
enum class LossReduction : std::uint8_t { mean, tokens };

/// What a step does when an unscaled gradient is not finite.
enum class OnNonfinite : std::uint8_t { skip, error, propagate };

/// What a step does with a tensor no micro-batch gives a gradient to.
enum class MissingGrad : std::uint8_t { zero, skip };

/// How master becomes the parameter (R8).
enum class ParamRounding : std::uint8_t { nearest, stochastic };

/// Names as configuration files and reports spell them, in the order of the enumerators.
Span<const std::string_view> names_of(UpdateRule);
Span<const std::string_view> names_of(NormForm);
Span<const std::string_view> names_of(LossReduction);
Span<const std::string_view> names_of(OnNonfinite);
Span<const std::string_view> names_of(MissingGrad);
Span<const std::string_view> names_of(ParamRounding);

template <class Choice>
std::string_view name(Choice choice) requires requires {
  names_of(choice);
}
{ return names_of(choice)[static_cast<std::size_t>(choice)]; }

}  // namespace zeroproof
