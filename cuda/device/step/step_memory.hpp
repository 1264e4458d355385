#pragma once
// The data of a step on a device, all of it in device memory: no value passes through the host.
// Needs no CUDA.

#include <cstdint>

#include "common/contracts/loss_scaler.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda::device {

/// A range of one tensor in the buffers of a shard. It starts at a chunk boundary of its tensor
/// (R12).
struct StepPiece {
  static constexpr std::int64_t most_numel = std::int64_t{1} << 16;

  std::int64_t local_begin = 0;  ///< in every buffer of the shard
  std::int64_t numel = 0;        ///< 1 to most_numel
  std::int64_t tensor = 0;
  std::int64_t tensor_begin =
      0;                     ///< first element, counted from the tensor's start on this TP rank
  std::int64_t group = 0;    ///< param group of the tensor
  std::int64_t counted = 0;  ///< 1: this rank counts it in the norm (R12)
  /// Element e of the tensor is element place_begin + e / row_numel * row_stride + e % row_numel of
  /// the undistributed model, the index of its random word (R15). Rows without gaps (row_stride =
  /// row_numel) need no division.
  std::int64_t place_begin = 0;
  std::int64_t row_numel = 1;
  std::int64_t row_stride = 1;
  std::int64_t clip_group = 0;  ///< of the tensor
};

/// Reasons why a step, and every later one, changes nothing. Several may be set.
enum StepHalt : std::uint32_t {
  halt_nonfinite = 1,        ///< on_nonfinite = error, and a gradient is not finite
  halt_scalars_differ = 2,   ///< ranks have different step scalars
  halt_schedule_left = 4,    ///< the schedule table has no row for this t
  halt_scalars_refused = 8,  ///< t, scale and divisor leave the ranges of R5
};

/// State that persists across steps.
struct StepState {
  std::uint64_t applied_steps;
  LossScalerState scaler;
  std::uint32_t
      halt;  ///< StepHalt, sticky: while it is not 0, nothing else in device memory changes
};

/// Inputs of a step from the host.
struct StepInput {
  std::int64_t divisor;      ///< micro-batches, or tokens (R5); at least 1
  std::int64_t first_row_t;  ///< of the schedule table
  std::int64_t num_rows;
};

inline constexpr int num_norm_words = 23;  ///< 21 limbs, nan_count, inf_count (R12)

/// Results of a step. All zero when it starts.
struct StepFound {
  std::uint64_t sums[num_norm_words];  ///< not with the form inf. Normalised after every kernel
  std::uint64_t amax;                  ///< largest magnitude as bits, with the form inf
  std::uint64_t found_inf;             ///< 0 or 1; of all ranks after the maximum over ranks
  std::uint64_t
      digest;  ///< of the step scalars, and its complement; after the maximum of both over ranks,
  std::uint64_t not_digest;       ///< they are complements only if the digest is equal on all ranks
  double grad_norm;               ///< N; NaN in a skipped step
  std::uint64_t t;                ///< number of this step: applied_steps + 1 when it began
  float clip_coef;                ///< NaN in a skipped step
  std::uint32_t skipped;          ///< 1: found_inf, and the policy is to skip
  std::uint32_t finished_blocks;  ///< of the running pass; 0 between passes
};

/// Results of a step for several clip groups (R12): they replace the members of StepFound with the
/// same names; grad_norm and clip_coef of StepFound then repeat those of the default group. With
/// one group all pointers are null.
struct ClipGroupsFound {
  std::uint64_t* sums = nullptr;     // [count][num_norm_words], zero when a step starts
  std::uint64_t* amax = nullptr;     // [count], the same
  std::uint32_t* largest = nullptr;  // [count], amax of all ranks in half the bytes: for reports
  double* grad_norm = nullptr;       // [count]
  float* clip_coef = nullptr;        // [count]
  const double* max_norm = nullptr;  // [count]; 0: none
  std::int64_t count = 1;
};

/// Trust ratios of a step (R6). Without them, both pointers are null.
struct TrustFound {
  std::uint64_t* sums =
      nullptr;  // [num_tensors][2][num_norm_words] of master and u, zero when their pass starts
  float* ratios = nullptr;  // [num_tensors]
};

/// A tensor under the rule muon (R28).
struct StepMatrix {
  std::int64_t num_parts = 0;   ///< 0: no matrix; 1: all parts have one factor
  std::int64_t first_part = 0;  ///< in StepMatrices::parts
  std::int64_t begin = 0;       ///< number of its first element, as StepPiece::place_begin
  std::int64_t columns = 1;     ///< of the undistributed matrix
  std::int64_t period = 1;      ///< rows of the parts together, or columns
  std::int64_t by_columns = 0;  ///< 1: parts are columns
};

struct StepMatrixPart {
  std::int64_t end = 0;  ///< of its rows in a period, or columns
  double factor = 0;     ///< z of R28
};

/// Matrices of a step. For other rules all pointers are null.
struct StepMatrices {
  const StepMatrix* tensors = nullptr;    // [num_tensors]
  const StepMatrixPart* parts = nullptr;  // of all matrices
  float* orthogonal = nullptr;            // [shard_numel]: e, then elements of O
};

/// The data that the host reads, in one copy.
struct StepRecord {
  StepState state;
  StepFound found;
};

/// lr and weight_decay of every param group for a range of t, as computed by the host's fp64
/// functions (R20).
struct ScheduleRow {
  double lr;
  double weight_decay;
};

/// Device pointers. A pass owns none of them.
struct StepMemory {
  StepState* state = nullptr;
  StepInput* input = nullptr;
  StepFound* found = nullptr;
  ClipGroupsFound groups_found = {};
  TrustFound trust = {};
  StepMatrices matrices = {};
  StepScalars* scalars =
      nullptr;  // [num_sets]: one for every group, or every tensor if they count their own
  std::uint64_t* tensor_steps =
      nullptr;  // [num_tensors] applied updates; null unless tensors count their own steps
  const std::uint64_t* has_grad =
      nullptr;  // one bit for each tensor, lowest first; null unless they count their own
  const std::int64_t* tensor_groups =
      nullptr;  // [num_tensors] group of each; null unless they count their own or have ratios
  const ScheduleRow* schedule = nullptr;  // [num_rows, of t from first_row_t on][num_groups]
  const StepPiece* pieces = nullptr;      // [num_pieces], increasing

  float* grad = nullptr;  // [shard_numel], as all below: G, then g1, then g (phases), G (fused)
  float* master = nullptr;
  PerSlot<float*> slots = {};  // null if the rule has none; device code uses values[]
  void* param = nullptr;       // in the parameter dtype

  std::int64_t num_sets = 0;
  std::int64_t num_groups = 1;
  std::int64_t num_tensors = 0;
  std::int64_t num_pieces = 0;
};

}  // namespace zeroproof::cuda::device
