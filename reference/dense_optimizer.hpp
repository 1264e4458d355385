#pragma once
// The undistributed optimizer: one process, no shards, no communication. Every ZeRO stage must give
// its bits.

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

namespace zeroproof::reference {

/// Facts of the micro-batches that a step needs besides their gradients; the settings decide which
/// are read.
struct MicroBatchFacts {
  std::vector<std::int64_t> num_tokens;     ///< [M], with loss_reduction = tokens
  std::vector<std::vector<bool>> has_grad;  ///< [M][num_tensors], with missing_grad = skip
};

/// Reads from a gradient source the facts that the settings need, for all M micro-batches.
MicroBatchFacts facts_of(const StepSettings& setup, const GradSource& leaves);

/// Every value of a step, after the step. Vectors of [padded_numel] cover the flat layout; padding
/// stays NaN.
struct DenseStep {
  std::vector<StepScalars> scalars;  ///< one set per group; with missing_grad = skip one per tensor
  int log2_loss_scale = 0;           ///< the scale of the gradients
  std::uint32_t found_inf = 0;       ///< 1 if a gradient is not finite, under every policy
  bool skipped = false;              ///< found_inf, and the policy is to skip
  PartialNorms norms;                ///< inputs of grad_norm, normalised; of the last applied step
  std::vector<double> grad_norm;     ///< [clip groups] NaN if the step was skipped
  std::vector<float> clip_coef;      ///< [clip groups] NaN if the step was skipped
  std::vector<float> trust_ratio;    ///< [num_tensors] of the last applied step (R6)
  std::vector<float> orthogonal;     ///< of the last applied step (R28)
  std::vector<float> grad_sum, unscaled_grad,
      grad;  ///< grad keeps its last value when the step was skipped
};

class DenseOptimizer {
 public:
  /// Errors: invalid_argument if validate_settings rejects the settings, a hyper-parameter is
  /// outside R5's range, the gradient sum is native, or the initial state lacks a buffer of the
  /// rule.
  DenseOptimizer(const StepSettings& setup, const FullState& initial);

  /// One training step; returns false if it was skipped.
  /// leaves: gradients of the micro-batches, [M] views of [padded_numel], all in one of fp32, bf16,
  /// fp16 (R11).
  /// Errors: invalid_argument if leaves or facts do not fit; nonfinite if a gradient is not finite
  /// and the policy is error: only gradient buffers have changed, the loss scaler has not.
  bool step(const std::vector<TensorView>& leaves, const MicroBatchFacts& facts = {});

  const FlatLayout& layout() const { return *setup_.layout; }
  const DenseStep& last_step() const { return last_; }

  /// [padded_numel] if it is stored in fp32 (R25); otherwise NaN, and buffer() has the stored form.
  const std::vector<float>& master() const { return master_; }

  /// One of the kept slots, [padded_numel] if it is stored in fp32; otherwise NaN.
  const std::vector<float>& state(BufferId id) const { return state_.at(slot_of(id).value()); }

  /// x of R25 of master or of one of the kept slots, in every storage format: the values that
  /// the next step reads, [padded_numel].
  std::vector<float> values(BufferId id) const;

  /// Parameters that the model reads, [padded_numel] in the parameter dtype.
  TensorView param() const;

  /// A buffer of the contract as it is after the step. [padded_numel]: grad_sum, unscaled_grad,
  /// grad, master, the rule's state, param_shard and param_full (both param()). Scales of the
  /// state, of every block. Words: step_scalars, applied_steps, found_inf, loss_scaler, norm_limbs
  /// or grad_amax by the form of the norm, grad_norm, clip_coef, trust_ratio and orthogonal
  /// of a rule that has them, and tensor_steps with missing_grad = skip; of parameters with scales amax, amax_history, param_scale, param_scale_inv,
  /// param_columns like param_full, and the same four of columns that have scales of their own. The
  /// data of a buffer that these settings do not have is nullptr.
  TensorView buffer(BufferId id) const;

  std::int64_t applied_steps() const { return static_cast<std::int64_t>(counts_.applied_steps); }

  /// Applied updates of every tensor, [num_tensors]; empty without missing_grad = skip.
  const std::vector<std::uint64_t>& tensor_steps() const { return counts_.tensor_steps; }

  LossScalerState loss_scaler() const { return scaler_; }

 private:
  std::int64_t divisor(const MicroBatchFacts& facts) const;
  std::vector<StepScalars> scalars(std::int64_t divisor) const;
  std::vector<bool> tensors_with_grad(const MicroBatchFacts& facts) const;
  void sum_gradients(const std::vector<TensorView>& leaves);
  void unscale_gradients();
  void clip_gradients();
  void compute_trust_ratios(const std::vector<Piece>& used);
  void update(const std::vector<bool>& has_grad);
  void round_parameters();
  void begin_scales(const FullState& initial);
  void cast_with_scales(const TakesPart& takes_part);
  void make_columns(const TakesPart& takes_part);
  void round(ParamBuffer& param) const;
  void keep_master();
  const StepScalars& scalars_of(std::int64_t tensor) const {
    return last_.scalars[counts_.slot(setup_.groups, tensor)];
  }

  StepSettings setup_;
  std::vector<Piece> pieces_;                     // one for each tensor with elements
  std::vector<std::optional<double>> max_norms_;  // [clip groups]
  std::vector<float> master_;
  RuleState state_;
  StoredState stored_;  // the buffers of state_ that are not stored in fp32
  MatrixUpdate matrices_;
  std::optional<ParamBuffer> bf16_master_;
  ParamScales scales_;
  ParamScales column_scales_;  // for columns with their own scales; codes: param_columns_
  ParamBuffer param_, param_columns_;
  StepCounts counts_;
  LossScalerState scaler_;
  DenseStep last_;
};

}  // namespace zeroproof::reference
