#pragma once
// One rank of the sharded step. distributed_optimizer.cpp checks the setup.

#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/buffers.hpp"
#include "reference/matrix_update.hpp"
#include "reference/norm_form.hpp"
#include "reference/param_scales.hpp"
#include "reference/rule.hpp"
#include "reference/step_counts.hpp"
#include "reference/stored_state.hpp"
#include "reference/zero/sharded/unit_params.hpp"

namespace zeroproof::reference {

/// The phases of one rank. Every result of a phase is a member, and later phases read it only from
/// there: an observer that overwrites an exposed view changes the rest of the step.
class ShardedOptimizer final : public DistributedOptimizer {
 public:
  explicit ShardedOptimizer(const OptimizerSetup& setup);

  void load_state(const FullState& state) override;
  void run_phase(Phase phase, GradSource& leaves) override;
  bool skipped() const override {
    return found_inf_ != 0 && setup_.on_nonfinite == OnNonfinite::skip;
  }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  LossScalerState loss_scaler() const override { return scaler_; }
  std::int64_t applied_steps() const override {
    return static_cast<std::int64_t>(counts_.applied_steps);
  }

 private:
  void prepare(const GradSource& leaves);
  void reduce(GradSource& leaves);
  void unscale();
  PartialNorms own_norms() const;
  void norm();
  void clip();
  void compute_trust_ratios(const std::vector<Piece>& used);
  void update_matrices();
  void update();
  void cast();
  void gather();

  std::size_t clip_group_of(const Piece& piece) const {
    return static_cast<std::size_t>(setup_.clip_groups.of(piece.tensor));
  }
  const StepScalars& scalars_of(std::int64_t tensor) const {
    return scalars_[counts_.slot(setup_.groups, tensor)];
  }
  /// False on all TP ranks but one for tensors that every TP rank has: norms count them once (R12).
  bool is_counted(const Piece& piece) const;
  /// The data ranks that have other elements: in stage 0 each has all of them, and so has every
  /// instance.
  Communicator* sharding_ranks() const { return setup_.stage == 0 ? nullptr : setup_.comm; }
  /// Master to parameters, with the draws of the steps counted so far; both views have the same
  /// elements.
  void round(ParamBuffer& param, Span<const float> master, const std::vector<Piece>& pieces) const;
  void round_everything(Span<const float> master);
  void init_scales();
  /// Amax of the masters joined over ranks, and scales from it (R24).
  void make_scales(ParamScales& scales, const TakesPart& takes_part);
  void load_with_scales(const FullState& state);
  void cast_with_scales();
  /// Scales and codes of columns, where columns have their own.
  void cast_columns(const TakesPart& takes_part);
  void make_columns();
  /// From this rank's ranges, its shard or everything, to the ranges that every rank has.
  void gather_codes(const TensorView& shard, const TensorView& full);
  std::vector<float> values_of(Span<const float> master, const std::vector<Piece>& pieces) const;
  /// Joins the largest magnitudes of blocks over all ranks with parts of them. Collective over comm
  /// and tp.
  void join(BlockAmax& amax) const;
  void keep_master();
  ParamSource param_source() const;

  /// False for a buffer that these settings do not have.
  bool exists(BufferId id) const;
  ExposedBuffer buffer(BufferId id);

  OptimizerSetup setup_;
  FlatRanges ranges_;          // of this rank's buffers: its shard, in stage 0 everything
  FlatRanges full_ranges_;     // of param_full: everything, in stage 3 the persistent tensors
  std::vector<Piece> pieces_;  // the tensor elements in ranges_; all arithmetic is over these
  bool loaded_ = false;

  std::uint64_t param_version_ = 0;  // casts so far, loading included
  std::vector<bool> has_grad_;       // by tensor, in this step; only with missing_grad = skip

  // One member for every BufferId, with two exceptions: norms_ has two, state_ those of the rule;
  // counts_ has the step counts.
  std::vector<StepScalars> scalars_;  // one set for every group, or for every tensor
  StepCounts counts_;
  std::uint32_t found_inf_ = 0;
  LossScalerState scaler_;
  PartialNorms norms_;
  std::vector<double> grad_norm_;  // [clip groups], as clip_coef_
  std::vector<float> clip_coef_;
  std::vector<float> trust_ratio_;  // [num_tensors], 1 with a rule that has none
  std::vector<float> grad_sum_, unscaled_grad_, grad_, master_;
  std::vector<float> orthogonal_;  // as master_; +0 with a rule without matrices
  RuleState state_;                // buffers not stored in fp32 are here only during an update
  StoredState stored_;             // buffers not stored in fp32
  MatrixUpdate matrices_;
  std::optional<ParamBuffer> bf16_master_;  // the stored form of master_, as stored_ is of state_
  ParamScales scales_;  // amax, amax_history, param_scale, param_scale_inv; with 8-bit parameters
  ParamScales
      column_scales_;  // column_amax, column_scale, column_scale_inv; with scales for columns
  ParamBuffer param_shard_, param_full_, param_columns_, column_shard_;
};

}  // namespace zeroproof::reference
