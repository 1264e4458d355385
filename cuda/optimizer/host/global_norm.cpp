#include "cuda/optimizer/host/global_norm.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda {

void GlobalNorm::clear() {
  std::ranges::fill(limbs_, NormLimbs{});
  std::ranges::fill(amax_, 0U);
}

void GlobalNorm::add(const NormPart& part, std::size_t group) {
  NormPart sum{limbs_[group], amax_[group]};
  sum.add(part);
  limbs_[group] = sum.limbs;
  amax_[group] = sum.amax;
}

void GlobalNorm::add(const KernelTable& ops, const Exec& exec, Span<const float> unscaled_grad,
                     NormPart& part) const {
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

void GlobalNorm::fused_norm(const Exec& exec, float inv_scale, Span<const float> grad_sum,
                            NormPart& part) const {
  (form_ == NormForm::exact ? host::fused_norm_exact : host::fused_norm_abs)(exec, inv_scale,
                                                                             grad_sum, part.limbs);
}

void GlobalNorm::finish(Communicator* comm, Communicator* tp, Span<double> norms) {
  const std::size_t groups = limbs_.size();
  if (form_ == NormForm::inf) {
    std::vector<std::uint64_t> largest(amax_.begin(), amax_.end());
    for (Communicator* wire : {comm, tp}) {
      if (wire != nullptr) wire->all_reduce(largest, IntegerReduce::max);
    }
    for (std::size_t group = 0; group < groups; ++group) {
      amax_[group] = static_cast<std::uint32_t>(largest[group]);
      norms[group] = host::grad_max_finish(amax_[group]);
    }
    return;
  }
  const auto normalise = [&] {
    for (NormLimbs& limbs : limbs_) host::grad_norm_normalise(limbs);
  };
  static_assert(sizeof(NormLimbs) == 23 * sizeof(std::uint64_t));
  const std::size_t num_bytes = groups * sizeof(NormLimbs);
  normalise();
  for (Communicator* wire : {comm, tp}) {
    if (wire == nullptr) continue;
    std::vector<std::uint64_t> words(num_bytes / sizeof(std::uint64_t));
    std::memcpy(words.data(), limbs_.data(), num_bytes);
    wire->all_reduce(words, IntegerReduce::sum);
    std::memcpy(static_cast<void*>(limbs_.data()), words.data(), num_bytes);
    normalise();
  }
  for (std::size_t group = 0; group < groups; ++group) {
    norms[group] = form_ == NormForm::one ? host::grad_abs_finish(limbs_[group])
                                          : host::grad_norm_finish(limbs_[group]);
  }
}

ExposedBuffer GlobalNorm::exposed() const {
  // Views are not const; lock-step may write, because it owns the run.
  const auto groups = static_cast<std::int64_t>(limbs_.size());
  if (form_ == NormForm::inf)
    return {
        BufferId::grad_amax, {const_cast<std::uint32_t*>(amax_.data()), DType::u32, groups}, {}};
  return {
      BufferId::norm_limbs, {const_cast<NormLimbs*>(limbs_.data()), DType::u64, 23 * groups}, {}};
}

}  // namespace zeroproof::cuda
