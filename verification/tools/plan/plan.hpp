#pragma once
// Bytes and messages of a step on any grid, computed, not measured.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/layout/matrix_owners.hpp"
#include "common/layout/process_grid.hpp"
#include "common/step/matrix_tensors.hpp"
#include "common/step/offload.hpp"
#include "verification/tools/plan/model.hpp"
#include "verification/tools/plan/predict/memory_model.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"
#include "verification/tools/plan/predict/traffic_model.hpp"

namespace zeroproof::verification {

inline constexpr int most_planned_ranks = 16384;

/// Inputs of the cost model: the user's figures for a machine. None is measured here.
struct MachineModel {
  double alpha_us = 5;       ///< time of a message besides its bytes
  double beta_gbs = 360;     ///< 10^9 bytes a rank sends per second
  double memory_gbs = 4300;  ///< 10^9 bytes a rank reads or writes per second
};

struct PlanSettings {
  ProcessGrid grid;
  int instances = 1;
  std::vector<int> stages = {0, 1, 2, 3};
  DType param_dtype = DType::bf16;
  ParamScaling scaling;  ///< of e4m3 and e5m2 (R24)
  DType grad_dtype = DType::fp32;
  OptimizerHyper hyper;
  StateFormats state_formats;    ///< of state kept between steps (R25)
  std::int64_t clip_groups = 1;  ///< each with a norm
  // Of the rule muon.
  MatrixOwners matrix_owners = MatrixOwners::every;
  MatrixTensorParallel matrix_tensor_parallel = MatrixTensorParallel::duplicated;
  std::vector<std::string>
      adamw;  ///< rule muon: globs of matrices left to adamw; empty: the usual names
  std::vector<MatrixSplitRule> matrix_splits;  ///< of the rule muon
  std::int64_t micro_batches = 0;              ///< M; 0: one for every data parallel rank
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  Windows windows = Windows::off;
  Space space =
      Space::host;  ///< device: steps are enqueued, as device-fused and device-graph do it
  std::int64_t bucket_numel = 262144;
  Offload offload;
  MachineModel machine;
};

/// One rank of a stage.
struct RankPlan {
  std::int64_t data_rank = 0;
  std::int64_t shard_numel = 0;  ///< padding included
  MemoryUse memory;
  BytesByClass at_peak{};  ///< the classes at the peak of the sum
  StepTraffic traffic;
  std::int64_t offloaded_numel = 0;  ///< of the shard's elements, padding included
  OffloadTraffic offload = {};
};

/// Bytes per parameter of the papers [ZeRO:memory], K = 12.
struct PaperBytes {
  double params = 0, grads = 0, master = 0, moments = 0;
  double total() const { return params + grads + master + moments; }
};

struct StepTime {
  double reduce_us = 0, norm_us = 0, update_us = 0, gather_us = 0, other_us = 0;
  double latency_us = 0;  ///< of these: starting messages, of any length
  double total_us() const { return reduce_us + norm_us + update_us + gather_us + other_us; }
};

/// Memory and messages measured on ranks.
struct MeasuredStage {
  BytesByClass least{}, most{};  ///< peaks of every class, over ranks
  MemoryUse smallest, largest;   ///< of the ranks that the plan names so
  std::int64_t messages = 0;     ///< of the largest one, in a step
  std::int64_t sent_bytes = 0;
};

/// How evenly ranks share the matrices of the rule muon (R28).
struct MatrixBalance {
  std::int64_t matrices = 0, numel = 0;                ///< of the model
  std::int64_t least_computed = 0, most_computed = 0;  ///< matrices of a rank
  double least_products = 0, mean_products = 0, most_products = 0;
  std::int64_t least_whole_bytes = 0, most_whole_bytes = 0;  ///< matrices brought together at once
  std::int64_t least_work_bytes = 0, most_work_bytes = 0;    ///< values of Newton-Schulz
  /// Elements of the matrices that a rank owns whole: the largest over the mean; 0 without owners.
  double most_numel_over_mean = 0;
};

struct StagePlan {
  int stage = 0;
  RankPlan largest, smallest;    ///< by peak of the sum, lower rank first
  BytesByClass least{}, most{};  ///< peaks of every class, over ranks
  std::int64_t ranks_computed = 0;
  PaperBytes papers;                      ///< bytes of one rank
  StepTime time;                          ///< of the largest rank
  std::optional<MatrixBalance> matrices;  ///< of the rule muon
  std::optional<MeasuredStage> measured;  ///< with --measure
};

struct Plan {
  PlanSettings settings;
  std::string model;
  std::int64_t numel = 0;     ///< undistributed
  std::int64_t tp_numel = 0;  ///< of one TP rank
  std::int64_t padded_numel = 0;
  std::int64_t num_tensors = 0;
  std::int64_t num_units = 0;
  std::int64_t largest_unit = 0;  ///< elements, padding included
  bool says_cuts = true;
  std::vector<StagePlan> stages;
};

/// "2x1x4", of at most most_planned_ranks ranks. world: ranks it must multiply out to, 0 for any.
/// Errors (ErrorCode::config): no grid, an impossible size, or a wrong product; the message names
/// the nearest valid grid.
ProcessGrid planned_grid(const std::string& text, std::int64_t world);

/// Errors: ErrorCode::config if the instances cannot have equally many data parallel ranks.
void require_whole_instances(const PlanSettings& settings);

/// Errors: ErrorCode::config if settings and model do not fit.
Plan make_plan(const PlannedModel& model, const PlanSettings& settings);

/// The sum of all differences between measured and planned bytes; 0 if nothing was measured.
std::int64_t bytes_apart(const StagePlan& stage);

/// Bytes that the update and the norm of one step move on a rank, by the passes of a fused step:
/// the norm reads G; the update reads G, reads and writes master and state, writes the parameter.
std::int64_t update_bytes(const PredictedStep& shape);

}  // namespace zeroproof::verification
