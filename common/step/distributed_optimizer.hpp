#pragma once
// Interface of the sharded step for every implementation: reference and production.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/space.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "common/layout/matrix_owners.hpp"
#include "common/layout/process_grid.hpp"
#include "common/layout/shard_map.hpp"
#include "common/layout/tensor_blocks.hpp"
#include "common/step/layered_model.hpp"
#include "common/step/memory_use.hpp"
#include "common/step/offload.hpp"
#include "common/step/phase.hpp"
#include "common/step/state_source.hpp"
#include "common/step/step_settings.hpp"

namespace zeroproof {

/// Source of micro-batch gradients: the gradient of the loss of one micro-batch alone, times the
/// loss scale.
class GradSource {
 public:
  virtual ~GradSource() = default;

  /// Shapes   [padded_numel] in the gradient dtype (fp32, bf16 or fp16); padding is undefined, NaN when
  ///          poisoned.
  /// The view stays valid until the next call on this source; that of the last call in a step until the step ends.
  /// Micro-batches are counted in data order, 0 <= j < M.
  virtual TensorView micro_batch_grad(std::int64_t micro_batch) = 0;

  /// Memory of those elements: the host's, or that of the optimizer's device. In the second case
  /// they are written by work enqueued on the optimizer's stream, which is current during the call.
  virtual Space space() const { return Space::host; }

  /// Tokens in the loss sum of a micro-batch, 0 or more, less than 2^53 in all; called in
  /// Phase::prepare when the divisor counts tokens, by each rank for the micro-batches it computes.
  virtual std::int64_t num_tokens(std::int64_t micro_batch) const;

  /// False if this micro-batch gives the tensor no gradient; its elements of the gradient are then +0. Called in
  /// Phase::prepare under missing_grad = skip, by each rank for the micro-batches it computes.
  virtual bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const;

  /// The model behind the gradients, if it can be run layer by layer; micro_batch_grad() is then not called. Without
  /// one, gradients are complete at every stage.
  virtual LayeredModel* layers() { return nullptr; }
};

/// Configuration of a rank. Ranks that hold different micro-batches or positions of the same tensors are *data ranks*:
/// comm->world_size() of them share one sharded state, and replicas->world_size() optimizer instances each have
/// their own. The data rank is replicas->rank() * comm->world_size() + comm->rank().
struct OptimizerSetup : StepSettings {
  const ShardMap* shards = nullptr;  ///< over comm
  Communicator* comm = nullptr;      ///< ranks over which the state is sharded
  /// Ranks of the other instances that own the same shard; null: one instance.
  Communicator* replicas = nullptr;
  Communicator* tp = nullptr;  ///< ranks that have other parts of the same tensors; null: one
  int cp = 1;                  ///< CP ranks per micro-batch; data rank r is CP rank r mod cp
  /// [num_tensors]; empty: the layout is the undistributed one.
  std::vector<TensorPlacement> placement;
  /// [num_tensors] the matrices that tensors are parts of, for scales and the rule muon; empty: as placement.
  std::vector<TensorMatrix> matrices;
  /// [ZeRO:memory]: 0 replicates, 1 shards state, 2 gradients too, 3 parameters too.
  int stage = 0;
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  /// Stage 3: tensors of at most this many elements stay complete on every rank.
  std::int64_t persistent_numel = 0;
  bool overlap = false;  ///< communicate while layers compute; never changes a bit
  // With the rule muon; never change a bit.
  MatrixOwners matrix_owners = MatrixOwners::every;
  /// distributed: on the host only.
  MatrixTensorParallel matrix_tensor_parallel = MatrixTensorParallel::duplicated;
  Windows windows = Windows::on;
  Transport transport = Transport::copies;  ///< of buffers on devices
  Offload offload;                          ///< of this rank's state
  DType grad_dtype = DType::fp32;           ///< fp32, bf16 or fp16
  /// For tests: gradient memory is NaN when allocated and after its last use. Never changes a bit.
  bool guards = false;
  Exec exec;
};

/// Persistent state, undistributed, in flat order. Padding is ignored. State that the rule does not
/// have is ignored too and may be empty; state that it has must be there.
struct FullState {
  Span<const float> master;                ///< [padded_numel]
  PerSlot<Span<const float>> slots;        ///< [padded_numel] each
  Span<const std::uint64_t> tensor_steps;  ///< [num_tensors], under missing_grad = skip
  std::int64_t applied_steps = 0;
  LossScalerState scaler;
  /// [num_blocks] (R24), of parameters with scales; empty: a new run
  Span<const float> param_scale = {};
  /// [num_blocks * history], under the recipe delayed
  Span<const std::uint32_t> amax_history = {};
  /// The stored form of a slot whose format has scales (R25): with scale_inv of every block of
  /// the undistributed numbering, also on TP ranks, [padded_numel / state_block_numel], the
  /// slot's values are codes, widened. Empty: they are values, which are encoded.
  PerSlot<Span<const float>> slot_scales = {};
};

/// One buffer as an observer receives it. Sharded buffers have the global ranges of their elements,
/// in order; for scalars `ranges` is empty. Ranges of scales of state count blocks of the
/// undistributed numbering.
struct ExposedBuffer {
  BufferId id;
  TensorView view;
  std::vector<FlatRange> ranges;
  bool shared = false;  ///< memory shared by several ranks, which others write too
};

/// Called after every phase of a step; production runs without one.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void observe(Phase phase, const ExposedBuffer& buffer) = 0;
};

/// One rank's part of a step: it works on the elements the rank owns [ZeRO:local].
class DistributedOptimizer {
 public:
  virtual ~DistributedOptimizer() = default;

  /// Sets master, moments, counters and scaler from the undistributed state, and computes param_shard and
  /// param_full from master. Call once before the first step, on all ranks: it is collective.
  /// Errors: invalid_argument for a state that does not fit the rule; comm, the same on every rank, if ranks
  /// differ in a setting or a counter of the state (setup_agreement.hpp).
  virtual void load_state(const FullState& state) = 0;

  /// The same from a source that is read in parts: besides its own share, an implementation holds a
  /// few MiB of it. Errors: those of load_state and of the source (the other ranks then wait for
  /// this one, until its communicator is aborted); unavailable, if it only loads complete states.
  virtual void load_state_from(const StateSource& source);

  /// Memory where this rank may compute its gradients: a gradient in it need not be copied for
  /// ranks that share the machine. [padded_numel] in the gradient dtype; empty if there is no such
  /// memory. The caller may write it from the end of Phase::reduce to the return of
  /// micro_batch_grad(). Collective over comm the first time.
  virtual TensorView leaf_buffer() { return {}; }

  /// Runs one phase. Phases run in the order of all_phases; after an overflow the phases of
  /// skipped_on_overflow must not be called. Of `leaves`, micro_batch_grad() and layers() are called
  /// in Phase::reduce only, num_tokens() and has_grad() in Phase::prepare only.
  virtual void run_phase(Phase phase, GradSource& leaves) = 0;

  /// True between unscale and the next prepare if found_inf was set on any rank and the policy is to skip.
  /// grad_norm and clip_coef are then NaN. (With the policy error, unscale throws ErrorCode::nonfinite instead.)
  virtual bool skipped() const = 0;

  /// Buffers written by a phase, valid until the next phase runs. Views are writable: lock-step comparison
  /// overwrites them with the reference's values. Empty for a phase that does nothing here (fused builds).
  virtual std::vector<ExposedBuffer> exposed(Phase phase) = 0;

  /// Must be called after a write through views of exposed(phase), before the next phase runs.
  /// Values that an implementation has derived ahead of later phases are then computed again.
  virtual void overwritten(Phase) {}

  /// Every buffer that exists, once per piece of memory (a buffer reused for several ids appears under the
  /// first).
  virtual std::vector<ExposedBuffer> storage() = 0;

  /// Name of a buffer whose red zone was overwritten, "" if none (or if the implementation has no red zones).
  virtual std::string damaged_guard() const { return {}; }

  virtual LossScalerState loss_scaler() const = 0;
  virtual std::int64_t applied_steps() const = 0;

  /// Current and peak bytes of this rank; all zero if the implementation does not count.
  virtual MemoryUse memory() const { return {}; }

  /// All phases of one step; returns false if the step was skipped. Without an observer an
  /// implementation may fuse or reorder work; every buffer then has the same content as after the
  /// phases.
  virtual bool step(GradSource& leaves, StepObserver* observer = nullptr);
};

}  // namespace zeroproof
