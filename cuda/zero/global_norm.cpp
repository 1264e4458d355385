#include "cuda/zero/global_norm.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/limb_deposit.hpp"

namespace zeroproof::cuda {

void GlobalNorm::clear() {
  sum_.limbs = NormLimbs{};
  sum_.amax = 0;
}

void GlobalNorm::Part::add(const Part& other) {
  NormLimbs normal = other.limbs;
  host::grad_norm_normalise(normal);  // so that limbs of many parts cannot run over
  host::merge(normal, limbs);
  amax = std::max(amax, other.amax);
}

void GlobalNorm::add(const PhaseOps& ops, const Exec& exec, Span<const float> unscaled_grad,
                     Part& part) const {
  switch (form_) {
    case NormForm::chunk1024:
      return ops.grad_norm_accumulate(exec, unscaled_grad, part.limbs);
    case NormForm::exact:
      return ops.grad_norm_exact_accumulate(exec, unscaled_grad, part.limbs);
    case NormForm::one:
      return ops.grad_abs_accumulate(exec, unscaled_grad, part.limbs);
    case NormForm::inf:
      return ops.grad_max_accumulate(exec, unscaled_grad, part.amax);
  }
}

bool GlobalNorm::fused_unscale(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                               Part& part) const {
  if (form_ == NormForm::chunk1024) {
    return host::fused_finite_and_norm(exec, inv_scale, grad_sum, part.limbs);
  }
  if (form_ == NormForm::inf) {
    std::uint32_t amax = 0;
    host::fused_norm_max(exec, inv_scale, grad_sum, amax);
    part.amax = std::max(part.amax, amax);
    return amax >= 0x7F800000U;  // the bits of infinity; a NaN lies above
  }
  return host::fused_finite(exec, inv_scale, grad_sum);
}

bool GlobalNorm::fused_fold(const Exec& exec, float inv_scale, const host::FoldPlan& plan,
                            Span<const host::GradStretch> operands, Span<float> sum, bool streamed,
                            Part& part) const {
  return host::fused_fold_finite_and_norm(exec, inv_scale, plan, operands, sum, streamed, part.limbs);
}

bool GlobalNorm::fused_look(const Exec& exec, float inv_scale, const host::GradStretch& leaf,
                            std::int64_t numel, Part& part) const {
  return host::fused_finite_and_norm(exec, inv_scale, leaf, numel, part.limbs);
}

void GlobalNorm::fused_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum, Part& part) const {
  if (!fused_leaves_rest()) return;
  (form_ == NormForm::exact ? host::fused_norm_exact : host::fused_norm_abs)(exec, inv_scale, grad_sum,
                                                                             part.limbs);
}

double GlobalNorm::finish(Communicator* comm, Communicator* tp) {
  if (form_ == NormForm::inf) {
    std::uint64_t word = sum_.amax;
    for (Communicator* group : {comm, tp}) {
      if (group != nullptr) group->all_reduce({&word, 1}, IntegerReduce::max);
    }
    sum_.amax = static_cast<std::uint32_t>(word);
    return host::grad_max_finish(sum_.amax);
  }
  host::grad_norm_normalise(sum_.limbs);
  for (Communicator* group : {comm, tp}) {
    if (group == nullptr) continue;
    static_assert(sizeof(NormLimbs) == 23 * sizeof(std::uint64_t));
    auto words = std::bit_cast<std::array<std::uint64_t, 23>>(sum_.limbs);
    group->all_reduce(words, IntegerReduce::sum);
    sum_.limbs = std::bit_cast<NormLimbs>(words);
    host::grad_norm_normalise(sum_.limbs);
  }
  return form_ == NormForm::one ? host::grad_abs_finish(sum_.limbs) : host::grad_norm_finish(sum_.limbs);
}

ExposedBuffer GlobalNorm::exposed() const {
  // A view has no const; lock-step may write, because it owns the run.
  if (form_ == NormForm::inf)
    return {BufferId::grad_amax, {const_cast<std::uint32_t*>(&sum_.amax), DType::u32, 1}, {}};
  return {
      BufferId::norm_limbs, {const_cast<NormLimbs*>(&sum_.limbs), DType::u64, sizeof(sum_.limbs) / 8}, {}};
}

}  // namespace zeroproof::cuda
