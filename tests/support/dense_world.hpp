#pragma once
// The undistributed reference as the truth of a world.

#include "reference/dense_optimizer.hpp"
#include "reference/distributed_optimizer.hpp"
#include "tests/support/world.hpp"

namespace zeroproof::tests {

/// The undistributed optimizer and whole gradients for it.
class DenseWorld {
  const StepSettings& settings_of(const World& world) {
    settings_ = world.setup;
    settings_.layout = &layout_;
    return settings_;
  }

  FlatLayout layout_;
  StepSettings settings_;
  WholeGrads grads_;

 public:
  explicit DenseWorld(const World& world)
      : layout_(world.tensors.params),
        grads_(world.tensors, world.grads(), world.grid),
        optimizer(settings_of(world), world.initial().view()) {}

  bool step(std::int64_t step) {
    grads_.begin_step(step, optimizer.loss_scaler().log2_scale, optimizer.param());
    const TensorView scales = optimizer.buffer(BufferId::param_scale_inv);
    grads_.set_scales(
        {static_cast<const float*>(scales.data), static_cast<std::size_t>(scales.numel)});
    std::vector<GuardedBuffer> leaves;
    std::vector<TensorView> views;
    for (std::int64_t j = 0; j < settings_.micro_batches; ++j) {
      leaves.push_back(copy_of(grads_.micro_batch_grad(j)));
      views.push_back(leaves.back().view());
    }
    return optimizer.step(views, reference::facts_of(settings_, grads_));
  }

  /// All buffers after a step, applied or skipped.
  StepTruth truth(bool applied = true) const {
    StepTruth truth;
    truth.applied = applied;
    for (int i = 0; i < num_buffer_ids; ++i) {
      const auto id = static_cast<BufferId>(i);
      const TensorView view = optimizer.buffer(id);
      if (view.data != nullptr) truth.keep(id, view);
    }
    return truth;
  }

  reference::DenseOptimizer optimizer;
};

inline WorldTruth dense_truth(const World& world) {
  DenseWorld dense(world);
  WorldTruth truth;
  truth.push_back(dense.truth());
  for (int step = 1; step <= world.steps; ++step) {
    const bool applied = dense.step(step);
    truth.push_back(dense.truth(applied));
  }
  return truth;
}

/// Every buffer of every step agrees with the undistributed optimizer.
inline void check_against_dense(const World& world, const std::string& what = "") {
  check_world(world, dense_truth(world), what);
}

/// Both have the same bits in these buffers after every step, a NaN being one value.
inline void check_same_results(const WorldTruth& a, const WorldTruth& b,
                               std::initializer_list<BufferId> buffers) {
  REQUIRE(a.size() == b.size());
  for (std::size_t step = 1; step < a.size(); ++step) {
    CAPTURE(step);
    for (const BufferId id : buffers) {
      CAPTURE(name(id));
      const TensorView want = a[step].at(id), got = b[step].at(id);
      REQUIRE(want.numel == got.numel);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < want.numel; ++i) {
        const bool same = element_bits(want, i) == element_bits(got, i);
        wrong += same || (is_nan(want, i) && is_nan(got, i)) ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
}

}  // namespace zeroproof::tests
