#pragma once
// Settings of a training step that do not depend on the number of ranks.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/clip_groups.hpp"
#include "common/step/matrix_tensors.hpp"
#include "common/step/param_groups.hpp"
#include "common/step/param_scaling.hpp"
#include "common/step/policy.hpp"

namespace zeroproof {

struct StepSettings {
  const FlatLayout* layout = nullptr;  ///< of this TP rank's tensors
  ParamGroups groups = {};
  ClipGroups clip_groups = {};
  DType param_dtype = DType::bf16;  ///< fp32, bf16, fp16, e4m3 or e5m2
  ParamScaling scaling = {};        ///< of e4m3 and e5m2
  std::int64_t micro_batches = 1;   ///< M, over all ranks
  GradSum grad_sum = GradSum::tree;
  OptimizerHyper hyper = {};
  LossScalerConfig scaler = {};
  LossReduction loss_reduction = LossReduction::mean;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  MissingGrad missing_grad = MissingGrad::zero;
  ParamRounding param_rounding = ParamRounding::nearest;  ///< stochastic: bf16 parameters only
  std::uint64_t seed = 1;                                 ///< of the draws of stochastic rounding
  StateFormats state_formats = {};                        ///< of the persistent state
  /// [num_tensors] with the rule muon (make_matrix_tensors), else empty
  std::vector<MatrixTensor> matrix_tensors = {};
};

}  // namespace zeroproof
