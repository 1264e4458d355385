#include "cuda/zero/global_norm.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "cuda/host/fused_step.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/limb_deposit.hpp"

namespace zeroproof::cuda {

void GlobalNorm::clear() {
  limbs_ = NormLimbs{};
  amax_ = 0;
}

void GlobalNorm::add(const PhaseOps& ops, const Exec& exec, Span<const float> unscaled_grad) {
  if (form_ == NormForm::inf) {
    std::uint32_t amax = 0;
    ops.grad_max_accumulate(exec, unscaled_grad, amax);
    return add(amax);
  }
  NormLimbs limbs;
  if (form_ == NormForm::chunk1024) ops.grad_norm_accumulate(exec, unscaled_grad, limbs);
  if (form_ == NormForm::exact) ops.grad_norm_exact_accumulate(exec, unscaled_grad, limbs);
  if (form_ == NormForm::one) ops.grad_abs_accumulate(exec, unscaled_grad, limbs);
  host::grad_norm_normalise(limbs);  // so that limbs of many pieces cannot run over
  add(limbs);
}

bool GlobalNorm::fused_unscale(const Exec& exec, float inv_scale, Span<const float> grad_sum) {
  if (form_ == NormForm::chunk1024) {
    NormLimbs limbs;
    const bool found = host::fused_finite_and_norm(exec, inv_scale, grad_sum, limbs);
    add(limbs);
    return found;
  }
  if (form_ == NormForm::inf) {
    std::uint32_t amax = 0;
    host::fused_norm_max(exec, inv_scale, grad_sum, amax);
    add(amax);
    return amax >= 0x7F800000U;  // the bits of infinity; a NaN lies above
  }
  return host::fused_finite(exec, inv_scale, grad_sum);
}

void GlobalNorm::fused_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum) {
  if (form_ != NormForm::exact && form_ != NormForm::one) return;
  NormLimbs limbs;
  (form_ == NormForm::exact ? host::fused_norm_exact : host::fused_norm_abs)(exec, inv_scale, grad_sum,
                                                                             limbs);
  host::grad_norm_normalise(limbs);
  add(limbs);
}

void GlobalNorm::add(const NormLimbs& limbs) {
  const std::lock_guard lock(mutex_);
  host::merge(limbs, limbs_);
}

void GlobalNorm::add(std::uint32_t amax) {
  const std::lock_guard lock(mutex_);
  amax_ = std::max(amax_, amax);
}

double GlobalNorm::finish(Communicator* comm, Communicator* tp) {
  if (form_ == NormForm::inf) {
    std::uint64_t word = amax_;
    for (Communicator* group : {comm, tp}) {
      if (group != nullptr) group->all_reduce({&word, 1}, IntegerReduce::max);
    }
    amax_ = static_cast<std::uint32_t>(word);
    return host::grad_max_finish(amax_);
  }
  host::grad_norm_normalise(limbs_);
  for (Communicator* group : {comm, tp}) {
    if (group == nullptr) continue;
    static_assert(sizeof(NormLimbs) == 23 * sizeof(std::uint64_t));
    auto words = std::bit_cast<std::array<std::uint64_t, 23>>(limbs_);
    group->all_reduce(words, IntegerReduce::sum);
    limbs_ = std::bit_cast<NormLimbs>(words);
    host::grad_norm_normalise(limbs_);
  }
  return form_ == NormForm::one ? host::grad_abs_finish(limbs_) : host::grad_norm_finish(limbs_);
}

ExposedBuffer GlobalNorm::exposed() const {
  // A view has no const; lock-step may write, because it owns the run.
  if (form_ == NormForm::inf)
    return {BufferId::grad_amax, {const_cast<std::uint32_t*>(&amax_), DType::u32, 1}, {}};
  return {BufferId::norm_limbs, {const_cast<NormLimbs*>(&limbs_), DType::u64, sizeof(limbs_) / 8}, {}};
}

}  // namespace zeroproof::cuda
