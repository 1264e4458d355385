#pragma once
// The global norm in the form a run has chosen (R12).

#include "common/contracts/grad_norm.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::reference {

/// What is known of the norm so far. Only one of the two is used: amax in the form inf, limbs in all others.
struct PartialNorm {
  NormLimbs limbs;
  std::uint32_t amax = 0;
};

/// Adds a piece of a tensor, which starts at a chunk boundary of it.
void accumulate(NormForm form, Span<const float> grad, PartialNorm& norm);

/// N, from what all ranks have added.
double finish(NormForm form, const PartialNorm& norm);

}  // namespace zeroproof::reference
