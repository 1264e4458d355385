#pragma once
// One step of the sharded reference, with every rank a thread of this process.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::python {

/// All inputs of a step, in flat order.
struct StepInput {
  std::vector<ParamSpec> params;
  std::vector<float> master;                     // [padded_numel]
  std::map<StateSlot, std::vector<float>> kept;  // [padded_numel] each; state of the rule
  std::vector<std::vector<std::byte>>
      leaves;  // [micro_batches], [padded_numel] of the gradient dtype each
  std::int64_t applied_steps = 0;
  LossScalerState scaler;
};

/// Parallel configuration and settings.
struct StepRequest {
  int world_size = 1;
  int stage = 0;
  std::int64_t bucket_numel = 4096;
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  DType param_dtype = DType::bf16, grad_dtype = DType::fp32;
  OptimizerHyper hyper;
  LossScalerConfig scaler;
  OnNonfinite on_nonfinite = OnNonfinite::skip;
  GradSum grad_sum = GradSum::tree;
  std::vector<GroupRule> param_groups;
  std::vector<ClipGroupRule> clip_groups;
  std::vector<std::string> adamw;  ///< of muon: globs of matrices that are updated as adamw
  std::vector<MatrixSplitRule> matrix_splits;
  bool observers = false;
};

/// A buffer of one rank after a phase.
struct ObservedBuffer {
  Phase phase = Phase::prepare;
  int rank = 0;
  BufferId buffer = BufferId::step_scalars;
  std::vector<FlatRange> ranges;  // of the global numbering; empty for scalars
  DType dtype = DType::fp32;
  std::vector<std::byte> bytes;
};

struct StepOutput {
  bool skipped = false;
  std::vector<double>
      grad_norm;  ///< [clip groups], the default one first; NaN if the step was skipped
  std::vector<float> clip_coef;  ///< the same
  std::int64_t applied_steps = 0;
  LossScalerState scaler;
  std::map<BufferId, std::vector<float>> kept;  // master and the state of the rule, [padded_numel]
  std::vector<std::byte> param;                 // [padded_numel] of the parameter dtype
  std::vector<ObservedBuffer> observers;        // in the order of phases, then ranks
};

/// Errors: invalid_argument, with the rank's text, if a setup or a step refuses; nonfinite under
/// that policy.
StepOutput step_on_virtual_ranks(const FlatLayout& layout, const StepInput& input,
                                 const StepRequest& request);

}  // namespace zeroproof::python
