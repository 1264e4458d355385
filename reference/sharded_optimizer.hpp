#pragma once
// One rank of the sharded step. distributed_optimizer.cpp checks the setup, sharded_optimizer.cpp has the
// phases, sharded_views.cpp shows the buffers to taps.

#include <limits>
#include <vector>

#include "common/contracts/grad_norm.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/buffers.hpp"

namespace zeroproof::reference {

/// The phases of one rank. Every value that a phase leaves behind is a member, and later phases read it from
/// there and from nowhere else: whoever overwrites an exposed view decides what the rest of the step works
/// with.
class ShardedOptimizer final : public DistributedOptimizer {
 public:
  explicit ShardedOptimizer(const OptimizerSetup& setup);

  void load_state(const FullState& state) override;
  void run_phase(Phase phase, LeafSource& leaves) override;
  bool skipped() const override { return found_inf_ != 0; }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  LossScalerState loss_scaler() const override { return scaler_; }
  std::int64_t applied_steps() const override { return static_cast<std::int64_t>(applied_steps_); }

 private:
  void prepare();
  void reduce(LeafSource& leaves);
  void unscale();
  void norm();
  void clip();
  void update();
  void cast();
  void gather();
  ExposedBuffer buffer(BufferId id);

  OptimizerSetup setup_;
  std::vector<FlatRange> ranges_;  // what this rank's buffers hold: its shard, in stage 0 everything
  std::vector<Piece> pieces_;      // the tensor elements in ranges_; all arithmetic walks these
  bool loaded_ = false;

  // One member for every BufferId.
  StepScalars scalars_{};
  std::uint64_t applied_steps_ = 0;
  std::uint32_t found_inf_ = 0;
  LossScalerState scaler_;
  NormLimbs limbs_;
  double grad_norm_ = std::numeric_limits<double>::quiet_NaN();
  float clip_coef_ = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> grad_sum_, unscaled_grad_, grad_;
  std::vector<float> exp_avg_, exp_avg_sq_, master_;
  ParamBuffer param_shard_, param_full_;
};

}  // namespace zeroproof::reference
