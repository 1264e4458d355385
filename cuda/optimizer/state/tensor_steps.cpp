#include "cuda/optimizer/state/tensor_steps.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>

#include "common/base/error.hpp"
#include "common/comm/agreement.hpp"
#include "cuda/comm/exchange/micro_batches.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/optimizer/state/step_counts.hpp"

namespace zeroproof::cuda {
namespace {

template <class T>
TensorView view_of(const std::vector<T>& values, DType dtype) {
  // Views are not const; lock-step may write, because it owns the run.
  return {const_cast<T*>(values.data()), dtype,
          static_cast<std::int64_t>(values.size() * sizeof(T)) / num_bytes(dtype)};
}

}  // namespace

TensorSteps::TensorSteps(const OptimizerSetup& setup) : setup_(setup) {
  const std::size_t tensors = setup.layout->tensors().size();
  if (per_tensor()) tensor_steps_.assign(tensors, 0);
  has_grad_.assign(grad_words(setup), ~std::uint64_t{0});
  scalars_.resize(per_tensor() ? tensors : static_cast<std::size_t>(setup.groups.count()));
}

void TensorSteps::load(const FullState& state) {
  applied_steps_ = static_cast<std::uint64_t>(state.applied_steps);
  if (per_tensor()) tensor_steps_.assign(state.tensor_steps.begin(), state.tensor_steps.end());
}

void TensorSteps::prepare(GradSource& leaves, int log2_loss_scale) {
  const std::int64_t by = step_divisor(setup_, leaves);
  if (per_tensor()) find_gradients(setup_, leaves, has_grad_);
  const auto next = static_cast<std::int64_t>(applied_steps_) + 1;
  std::vector<OptimizerHyper> hypers;  // [groups]
  hypers.reserve(setup_.groups.count());
  for (int group = 0; group < setup_.groups.count(); ++group) {
    hypers.push_back(hyper_of(setup_.groups, setup_.hyper, group, next, setup_.micro_batches));
  }
  // Tensors of one group that are in the same step have the same scalars, which are made once.
  std::vector<std::unordered_map<std::int64_t, StepScalars>> made(hypers.size());  // [groups] by t
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    const auto group = static_cast<std::size_t>(
        per_tensor() ? setup_.groups.of(static_cast<std::int64_t>(i)) : static_cast<int>(i));
    const std::int64_t t = per_tensor() ? static_cast<std::int64_t>(tensor_steps_[i]) + 1 : next;
    const auto [one, is_new] = made[group].try_emplace(t);
    if (is_new) one->second = host::step_scalars(hypers[group], t, log2_loss_scale, by);
    scalars_[i] = one->second;
  }
  require_same_scalars(setup_, scalars_);
}

void TensorSteps::follow(const StepDecision& decision) {
  scalars_ = decision.scalars;
  if (per_tensor()) {
    has_grad_ = decision.has_grad;
    tensor_steps_ = decision.tensor_steps;
  }
  applied_steps_ = decision.applied_steps;
}

void TensorSteps::advance() {
  ++applied_steps_;
  for (std::size_t i = 0; i < tensor_steps_.size(); ++i) {
    tensor_steps_[i] += has_grad(static_cast<std::int64_t>(i)) ? 1 : 0;
  }
}

TensorView TensorSteps::scalars_view() const { return view_of(scalars_, DType::u32); }

TensorView TensorSteps::applied_steps_view() const {
  return {const_cast<std::uint64_t*>(&applied_steps_), DType::u64, 1};
}

TensorView TensorSteps::tensor_steps_view() const { return view_of(tensor_steps_, DType::u64); }

}  // namespace zeroproof::cuda
