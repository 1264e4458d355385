#include "cuda/zero/tensor_steps.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>

#include "common/base/error.hpp"
#include "common/comm/agreement.hpp"
#include "cuda/exchange/micro_batches.hpp"
#include "cuda/exchange/step_ranks.hpp"
#include "cuda/host/step_scalars.hpp"

namespace zeroproof::cuda {
namespace {

template <class T>
TensorView view_of(const std::vector<T>& values, DType dtype) {
  // A view has no const; lock-step may write, because it owns the run.
  return {const_cast<T*>(values.data()), dtype,
          static_cast<std::int64_t>(values.size() * sizeof(T)) / num_bytes(dtype)};
}

}  // namespace

TensorSteps::TensorSteps(const OptimizerSetup& setup) : setup_(setup) {
  const std::size_t tensors = setup.layout->tensors().size();
  if (per_tensor()) tensor_steps_.assign(tensors, 0);
  has_grad_.assign((tensors + 63) / 64, ~std::uint64_t{0});
  scalars_.resize(per_tensor() ? tensors : static_cast<std::size_t>(setup.groups.count()));
}

void TensorSteps::load(const FullState& state) {
  applied_steps_ = static_cast<std::uint64_t>(state.applied_steps);
  if (per_tensor()) tensor_steps_.assign(state.tensor_steps.begin(), state.tensor_steps.end());
}

std::int64_t TensorSteps::divisor(const GradSource& leaves) const {
  if (setup_.loss_reduction == LossReduction::mean) return setup_.micro_batches;
  std::uint64_t tokens = 0;
  for (const std::int64_t j : own_micro_batches(setup_)) {
    const std::int64_t count = leaves.num_tokens(j);
    constexpr std::int64_t limit = std::int64_t{1} << 53;  // R5; sums of 1024 such counts cannot wrap
    ZP_CHECK(count >= 0 && count < limit - static_cast<std::int64_t>(tokens), ErrorCode::invalid_argument,
             "micro-batch " + std::to_string(j) + " has " + std::to_string(count) + " tokens",
             "the gradient is divided by the tokens of all of them, and fp64 must hold that number",
             "count from 0 upwards, to less than 2^53 in all");
    tokens += static_cast<std::uint64_t>(count);
  }
  if (own_data_rank(setup_) % setup_.cp != 0) tokens = 0;  // CP rank 0 has counted the same micro-batches
  all_reduce_data(setup_, {&tokens, 1}, IntegerReduce::sum);
  constexpr std::uint64_t largest =
      std::numeric_limits<std::int64_t>::max();  // above 2^53 step_scalars refuses
  return static_cast<std::int64_t>(std::clamp<std::uint64_t>(tokens, 1, largest));
}

void TensorSteps::find_gradients(const GradSource& leaves) {
  std::ranges::fill(has_grad_, std::uint64_t{0});
  const auto tensors = static_cast<std::int64_t>(setup_.layout->tensors().size());
  for (const std::int64_t j : own_micro_batches(setup_)) {
    for (std::int64_t i = 0; i < tensors; ++i) {  // one gradient is enough: the others are not asked for
      if (!has_grad(i) && leaves.has_grad(j, i))
        has_grad_[static_cast<std::size_t>(i) / 64] |= std::uint64_t{1} << (i % 64);
    }
  }
  all_reduce_step(setup_, has_grad_, IntegerReduce::bitwise_or);
}

void TensorSteps::prepare(GradSource& leaves, int log2_loss_scale) {
  const std::int64_t by = divisor(leaves);
  if (per_tensor()) find_gradients(leaves);
  const auto next = static_cast<std::int64_t>(applied_steps_) + 1;
  std::vector<OptimizerHyper> hypers;  // [groups]
  hypers.reserve(static_cast<std::size_t>(setup_.groups.count()));
  for (int group = 0; group < setup_.groups.count(); ++group) {
    hypers.push_back(hyper_of(setup_.groups, setup_.hyper, group, next, setup_.micro_batches));
  }
  // Tensors of one group that are in the same step have the same scalars, which are made once.
  std::vector<std::unordered_map<std::int64_t, StepScalars>> made(hypers.size());  // [groups] by t
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    const auto group = static_cast<std::size_t>(per_tensor() ? setup_.groups.of(static_cast<std::int64_t>(i))
                                                             : static_cast<int>(i));
    const std::int64_t t = per_tensor() ? static_cast<std::int64_t>(tensor_steps_[i]) + 1 : next;
    const auto [one, is_new] = made[group].try_emplace(t);
    if (is_new) one->second = host::step_scalars(hypers[group], t, log2_loss_scale, by);
    scalars_[i] = one->second;
  }
  if (data_ranks(setup_) * tp_ranks(setup_) == 1) return;
  // TP ranks are neighbours, instances stand farthest apart: in this order ranks have their numbers in the step.
  require_agreement({setup_.tp, setup_.comm, setup_.replicas},
                    std::as_bytes(Span<const StepScalars>(scalars_)), "the step scalars",
                    "ranks that scale the same step differently drift apart without a sign",
                    "start every rank with the same settings, state and step number");
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
