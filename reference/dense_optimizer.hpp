#pragma once
// The undistributed optimizer: one process, no shards, no communication. What every stage must equal, bit for
// bit.

#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "reference/buffers.hpp"

namespace zeroproof::reference {

struct DenseSetup {
  const FlatLayout* layout = nullptr;
  DType param_dtype = DType::bf16;
  std::int64_t micro_batches = 1;  ///< M
  OptimizerHyper hyper;
  LossScalerConfig scaler;
};

/// Every value of one step, after the step. Vectors of [padded_numel] cover the flat layout; padding stays
/// NaN.
struct DenseStep {
  StepScalars scalars{};
  int log2_loss_scale = 0;  ///< the scale the leaves were made with
  bool found_inf = false;
  double grad_norm = 0;                              ///< NaN if the step was skipped
  float clip_coef = 0;                               ///< NaN if the step was skipped
  std::vector<float> grad_sum, unscaled_grad, grad;  ///< grad keeps its last value when the step was skipped
};

class DenseOptimizer {
 public:
  /// Errors: invalid_argument if the layout is missing, micro_batches < 1, or hyper-parameters leave R5's
  /// ranges.
  DenseOptimizer(const DenseSetup& setup, const FullState& initial);

  /// One training step; returns false if it was skipped.
  /// leaves: micro_batches views of [padded_numel], all in one of fp32, bf16, fp16 (R11).
  bool step(const std::vector<TensorView>& leaves);

  const DenseStep& last_step() const { return last_; }
  const std::vector<float>& master() const { return master_; }
  const std::vector<float>& exp_avg() const { return exp_avg_; }
  const std::vector<float>& exp_avg_sq() const { return exp_avg_sq_; }

  /// Parameters the model sees, [padded_numel] in the parameter dtype.
  TensorView param() const;

  std::int64_t applied_steps() const { return applied_steps_; }
  LossScalerState loss_scaler() const { return scaler_; }

 private:
  void sum_gradients(const std::vector<TensorView>& leaves);

  DenseSetup setup_;
  std::vector<Piece> pieces_;  // one per tensor that has elements
  std::vector<float> master_, exp_avg_, exp_avg_sq_;
  ParamBuffer param_;
  std::int64_t applied_steps_ = 0;
  LossScalerState scaler_;
  DenseStep last_;
};

}  // namespace zeroproof::reference
