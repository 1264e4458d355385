#include "cuda/optimizer/host/trust_ratios.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda {
namespace {

void normalise(TrustNorms& norms) {
  host::grad_norm_normalise(norms.weight);
  host::grad_norm_normalise(norms.update);
}

/// Normalises first, so that limbs of many parts cannot overflow.
void add_to(TrustNorms& sum, TrustNorms norms) {
  normalise(norms);
  host::merge(norms.weight, sum.weight);
  host::merge(norms.update, sum.update);
}

}  // namespace

TrustRatios::TrustRatios(const OptimizerSetup& setup)
    : is_used_(traits_of(setup.hyper.rule).trust_ratio),
      norms_(is_used_ ? setup.layout->tensors().size() : 0),
      ratios_(norms_.size(), 1.0F) {}

void TrustRatios::reset() {
  std::ranges::fill(norms_, TrustNorms{});
  std::ranges::fill(ratios_, 1.0F);
}

void TrustRatios::add(const Part& part) {
  for (const auto& [tensor, norms] : part.norms_) add_to(norms_[tensor], norms);
}

void TrustRatios::add(Span<const TrustNorms> norms) {
  for (std::size_t tensor = 0; tensor < norms_.size(); ++tensor)
    add_to(norms_[tensor], norms[tensor]);
}

std::vector<TrustNorms> TrustRatios::take_norms() {
  std::vector<TrustNorms> norms(norms_.size());
  norms.swap(norms_);
  return norms;
}

void TrustRatios::finish(const KernelTable& ops, Communicator* comm, Communicator* tp,
                         const TensorSteps& steps) {
  std::vector<TrustNorms> norms = take_norms();
  static_assert(sizeof(TrustNorms) == 46 * sizeof(std::uint64_t));
  const std::size_t num_bytes = norms.size() * sizeof(TrustNorms);
  for (Communicator* wire : {comm, tp}) {
    if (wire == nullptr || norms.empty()) continue;
    std::ranges::for_each(norms, normalise);
    std::vector<std::uint64_t> words(num_bytes / sizeof(std::uint64_t));
    std::memcpy(words.data(), norms.data(), num_bytes);
    wire->all_reduce(words, IntegerReduce::sum);
    std::memcpy(static_cast<void*>(norms.data()), words.data(), num_bytes);
  }
  for (std::size_t i = 0; i < norms.size(); ++i) {
    const auto tensor = static_cast<std::int64_t>(i);
    ratios_[i] = steps.updated(tensor) ? ops.lamb_trust_ratio(steps.scalars(tensor), norms[i]) : 1;
  }
}

ExposedBuffer TrustRatios::exposed() const {
  // Views are not const; lock-step may write, because it owns the run.
  return {
      BufferId::trust_ratio,
      {const_cast<float*>(ratios_.data()), DType::fp32, static_cast<std::int64_t>(ratios_.size())},
      {}};
}

}  // namespace zeroproof::cuda
