#pragma once

#include "cuda/device/kernels/gradients/norm_finish.cuh"
#include "cuda/device/kernels/update/adam_element.cuh"

namespace zeroproof::cuda::device {

/// u of R6 for one element, and its moments.
ZP_HOST_DEVICE inline AdamChange lamb_change(const StepScalars& scalars, float grad,
                                             const AdamState& old) {
  return adam_change<Decay::decoupled, false>(scalars, grad, old);
}

/// The update lines of R6. trust_ratio: of the element's tensor.
ZP_HOST_DEVICE inline AdamState lamb_element(const StepScalars& scalars, float trust_ratio,
                                             float grad, const AdamState& old) {
  const AdamChange next = lamb_change(scalars, grad, old);
  const float p = trust_ratio * next.u;
  return {old.master - p, next.exp_avg, next.exp_avg_sq, 0.0F};
}

/// Limbs and counts of N_w, then of N_u.
inline constexpr int num_trust_words = 2 * norm_num_sums;

/// The trust ratio of R6. words: [num_trust_words], of all elements of the tensor; their limbs are
/// normalised in place.
ZP_HOST_DEVICE inline float trust_ratio_of(const StepScalars& scalars, std::uint64_t* words) {
  const double weight_norm = norm_of_squares(words);
  const double update_norm = norm_of_squares(words + norm_num_sums);
  if (weight_norm == 0.0 || update_norm == 0.0) return 1.0F;
  const double n = static_cast<double>(scalars.lr) * weight_norm;
  const double q = n / update_norm;
  return static_cast<float>(q);
}

}  // namespace zeroproof::cuda::device
