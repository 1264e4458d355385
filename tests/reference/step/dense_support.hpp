#pragma once
// The smallest model whose steps can be computed by hand.

#include "reference/dense_optimizer.hpp"
#include "tests/reference/support.hpp"
#include "tests/support/world_truth.hpp"

namespace zeroproof::tests {

/// Three elements in two tensors; the global indices are 0, 1 and 1024.
inline const std::vector<std::size_t> where = {0, 1, 1024};

struct ThreeElements {
  ThreeElements()
      : layout({{"pair", {2}}, {"single", {1}}}), zeros(2048, 0.0F), master(2048, nan32) {
    const std::vector<float> start = {8, -4, 16};
    for (std::size_t i = 0; i < 3; ++i) master[where[i]] = start[i];
    setup.layout = &layout;
    setup.micro_batches = 2;
    setup.hyper.lr = 0.25;
    setup.hyper.beta1 = 0.5F;
    setup.hyper.beta2 = 0.75F;
    setup.hyper.eps = 1;
    setup.hyper.weight_decay = 0.5;
    setup.hyper.max_norm.reset();
    setup.scaler.kind = LossScalerKind::dynamic;
    setup.scaler.log2_initial = 2;
    scaler.log2_scale = 2;
  }

  FullState state() const {
    FullState state{master, zeros, zeros, zeros, zeros, tensor_steps, 0, scaler};
    state.applied_steps = applied_steps;
    return state;
  }

  FlatLayout layout;
  std::vector<float> zeros, master;
  std::vector<std::uint64_t> tensor_steps = {0, 0};
  std::int64_t applied_steps = 0;
  LossScalerState scaler;
  StepSettings setup;
};

/// A step with fp32 gradients whose padding is NaN.
inline bool step(reference::DenseOptimizer& optimizer,
                 const std::vector<std::vector<float>>& gradients,
                 const reference::MicroBatchFacts& facts = {}) {
  std::vector<std::vector<float>> leaves;
  std::vector<TensorView> views;
  leaves.reserve(gradients.size());
  views.reserve(gradients.size());
  for (const std::vector<float>& gradient : gradients) {
    leaves.emplace_back(2048, nan32);
    for (std::size_t i = 0; i < 3; ++i) leaves.back()[where[i]] = gradient[i];
  }
  for (std::vector<float>& leaf : leaves) views.push_back({leaf.data(), DType::fp32, 2048});
  return optimizer.step(views, facts);
}

inline std::vector<float> three(const std::vector<float>& values) {
  return {values[where[0]], values[where[1]], values[where[2]]};
}

}  // namespace zeroproof::tests
