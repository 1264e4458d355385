#pragma once
// The norm forms over grad[i] * factor, the product rounded to fp32 and not stored: with the
// inverse scale they read the gradient sum itself, with factor 1 an unscaled gradient.

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "cuda/host/gradients/exact_sum.hpp"

namespace zeroproof::cuda::host {

void accumulate_exact(const Exec& exec, ExactTerm term, float factor, Span<const float> grad,
                      NormLimbs& limbs);
void accumulate_max(const Exec& exec, float factor, Span<const float> grad, std::uint32_t& amax);

}  // namespace zeroproof::cuda::host
