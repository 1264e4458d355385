#pragma once
// Production optimizers wrapped with an additional legal action.

#include <memory>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::verification {

/// Forwards every call.
class WrappedOptimizer : public DistributedOptimizer {
 public:
  WrappedOptimizer(std::unique_ptr<DistributedOptimizer> inner, const FlatLayout& layout);

  void load_state(const FullState& state) override { inner_->load_state(state); }
  void load_state_from(const StateSource& source) override { inner_->load_state_from(source); }
  void run_phase(Phase phase, GradSource& leaves) override { inner_->run_phase(phase, leaves); }
  bool skipped() const override { return inner_->skipped(); }
  std::vector<ExposedBuffer> exposed(Phase phase) override { return inner_->exposed(phase); }
  void overwritten(Phase phase) override { inner_->overwritten(phase); }
  std::vector<ExposedBuffer> storage() override { return inner_->storage(); }
  std::string damaged_guard() const override { return inner_->damaged_guard(); }
  LossScalerState loss_scaler() const override { return inner_->loss_scaler(); }
  std::int64_t applied_steps() const override { return inner_->applied_steps(); }
  MemoryUse memory() const override { return inner_->memory(); }

 protected:
  /// True for the elements of the flat numbering that are padding.
  const std::vector<bool>& padding() const { return padding_; }

  std::unique_ptr<DistributedOptimizer> inner_;

 private:
  std::vector<bool> padding_;
};

/// Writes into its gradient buffers after a skipped step, before the next reduction fills them
/// again.
class Scribbler final : public WrappedOptimizer {
 public:
  Scribbler(std::unique_ptr<DistributedOptimizer> inner, const FlatLayout& layout,
            std::int64_t& scribbled)
      : WrappedOptimizer(std::move(inner), layout), layout_(layout), scribbled_(scribbled) {}

  void run_phase(Phase phase, GradSource& leaves) override;

 private:
  const FlatLayout& layout_;
  std::int64_t& scribbled_;
  bool after_skip_ = false;
};

/// Receives micro-batch gradients and a first state whose padding holds `junk` instead of NaN.
class PaddingFiller final : public WrappedOptimizer {
 public:
  PaddingFiller(std::unique_ptr<DistributedOptimizer> inner, const FlatLayout& layout, float junk,
                std::int64_t& changed)
      : WrappedOptimizer(std::move(inner), layout), junk_(junk), changed_(changed) {}

  void load_state(const FullState& state) override;
  void run_phase(Phase phase, GradSource& leaves) override;

 private:
  std::vector<float> filled(Span<const float> values);

  float junk_;
  std::int64_t& changed_;
};

}  // namespace zeroproof::verification
