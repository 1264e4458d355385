#pragma once
// The decision of a step when its update starts, for code that updates a part of its elements.

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda {

struct StepDecision {
  std::vector<StepScalars> scalars;  // [groups], or [num_tensors] if tensors count their own steps
  // One bit for each tensor; used if they count their own steps.
  std::vector<std::uint64_t> has_grad;
  // [num_tensors] if they count their own steps, else empty.
  std::vector<std::uint64_t> tensor_steps;
  std::uint64_t applied_steps = 0;      ///< counted so far
  std::vector<float> clip_coef;         // [clip groups]
  std::optional<TensorView> leaf;       ///< G, if it is there and not in the rank's buffer
  std::vector<float> trust_ratio = {};  // [num_tensors] of rules that have it, else empty
};

}  // namespace zeroproof::cuda
