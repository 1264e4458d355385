#include "cuda/reduce/fold_epilogue.hpp"

#include <algorithm>

#include "cuda/host/fused_step.hpp"
#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda {

void NormPart::add(const NormPart& other) {
  NormLimbs normal = other.limbs;
  host::grad_norm_normalise(normal);  // so that limbs of many parts cannot overflow
  host::merge(normal, limbs);
  amax = std::max(amax, other.amax);
}

void FoldResult::add(bool found_inf, const NormPart& norm) {
  if (found_inf) found_inf_ = true;
  const std::lock_guard lock(mutex_);
  norm_.add(norm);
}

bool FoldEpilogue::find(const Exec& exec, const host::GradStretch& sum, std::int64_t numel,
                        NormPart& norm) const {
  if (one_pass()) return host::fused_finite_and_norm(exec, inv_scale, sum, numel, norm.limbs);
  const Span<const float> values(static_cast<const float*>(sum.data),
                                 static_cast<std::size_t>(numel));
  if (form != NormForm::inf) return host::fused_finite(exec, inv_scale, values);
  std::uint32_t amax = 0;
  host::fused_norm_max(exec, inv_scale, values, amax);
  norm.amax = std::max(norm.amax, amax);
  return amax >= 0x7F800000U;  // the bits of infinity; a NaN is above
}

void FoldEpilogue::apply(const Exec& exec, Span<const float> sum) const {
  NormPart norm;
  const bool found_inf = find(exec, {sum.data(), DType::fp32}, numel(sum), norm);
  result->add(found_inf, norm);
}

void FoldEpilogue::fold(const Exec& exec, const host::FoldPlan& plan,
                        Span<const host::GradStretch> operands, Span<float> sum,
                        bool streamed) const {
  NormPart norm;
  const bool found_inf =
      host::fused_fold_finite_and_norm(exec, inv_scale, plan, operands, sum, streamed, norm.limbs);
  result->add(found_inf, norm);
}

}  // namespace zeroproof::cuda
