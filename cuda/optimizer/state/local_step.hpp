#pragma once
// The local part of a step: everything between the sum of a rank's gradients and its shard of new
// parameters.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/contracts/lamb.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "cuda/comm/exchange/grad_memory.hpp"
#include "cuda/host/base/piece_loop.hpp"
#include "cuda/offload/state_split.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/optimizer/params/param_scales.hpp"
#include "cuda/optimizer/params/param_store.hpp"
#include "cuda/optimizer/state/rule_state.hpp"
#include "cuda/optimizer/state/state_blocks.hpp"
#include "cuda/optimizer/state/step_decision.hpp"
#include "cuda/reduce/reduce_tools.hpp"

namespace zeroproof::cuda {

class MatrixExchange;  // matrices/matrix_exchange.hpp

/// Buffers of a LocalStep. The optimizer owns all of them, and they outlive the step.
struct RankShard {
  const OptimizerSetup& setup;
  const std::vector<FlatRange>& ranges;  ///< elements whose state is on the rank
  const host::PieceLoop& pieces;         ///< of the ranges
  CountedBuffer& grad;                   ///< [shard_numel] fp32: G, then the results of the phases
  CountedBuffer& master;  ///< [shard_numel] fp32 or bf16 (R25); with a split, [resident_numel]
  ParamStore& params;
  RuleState& state;                   ///< as master
  const StateSplit* split = nullptr;  ///< null: the state of all elements is here
  ParamScales* scales = nullptr;      ///< null: parameters have none
  /// Reads and stores state and master on the host (R25); null: all of it is fp32.
  const StateBlocks* tiles = nullptr;
  /// Codes and scales of the column-wise copy; both null if it has none besides those of params.
  ParamStore* column_params = nullptr;
  ParamScales* column_scales = nullptr;
  /// The exchange of matrices, their elements of O, [shard_numel] fp32, and memory for messages
  /// (R28); null: the rule updates no matrices.
  const MatrixExchange* matrices = nullptr;
  CountedBuffer* orthogonal = nullptr;
  GradMemory* messages = nullptr;
};

/// The shard once for every code of its masters (R24), with the params and scales of that code:
/// none without scales, one, or also the column-wise one, in the order in which they are made.
inline std::vector<RankShard> scaled_shards(const RankShard& shard) {
  std::vector<RankShard> shards;
  if (shard.scales == nullptr) return shards;
  shards.push_back(shard);
  if (shard.column_scales == nullptr) return shards;
  shards.push_back({.setup = shard.setup,
                    .ranges = shard.ranges,
                    .pieces = shard.pieces,
                    .grad = shard.grad,
                    .master = shard.master,
                    .params = *shard.column_params,
                    .state = shard.state,
                    .split = shard.split,
                    .scales = shard.column_scales,
                    .tiles = shard.tiles});
  return shards;
}

/// The elements of a piece, in a buffer of the shard.
template <class T = float>
Span<T> part(const CountedBuffer& buffer, const Piece& piece) {
  return buffer->as<T>().subspan(piece.local_begin, piece.numel);
}

/// For joining neighbours (PieceLoop::run_joined) where every element is treated equally.
inline bool any_tensors(const Piece& /*a*/, const Piece& /*b*/) { return true; }

/// The scalars, unscale, norm, clip, update and cast of one rank. The optimizer calls every
/// function, in the order of the phases; ranks exchange a few words there, never elements.
class LocalStep {
 public:
  virtual ~LocalStep() = default;

  /// Takes counters, scaler and scales, and casts the shard's parameters from master. master and
  /// the rule's buffers are loaded before. Collective as cast().
  virtual void load(const FullState& state) = 0;

  /// The same for a shard that is not all fp32, which `read` fills piece by piece, in the space of
  /// the buffers: state and master come in fp32, or as codes (StateBlocks::load). Collective over
  /// comm, if a block with a scale is split between ranks. Errors: internal, if everything is fp32.
  virtual void load_stored(const FullState& /*state*/, const StateBlocks::Chosen& /*of_codes*/,
                           const StateBlocks::Change& /*read*/) {
    fail(ErrorCode::internal, "this step stores its state in fp32", "it cannot read another form",
         "report this as a defect");
  }

  /// Phase prepare: the scalars of the step. Collective over all ranks of the step. Errors: comm if ranks differ.
  virtual void prepare(GradSource& leaves) = 0;

  /// Start of phase reduce: G will be in the gradient buffer.
  virtual void begin_sum() = 0;
  /// Destination of G, and what to compute of it on the way. leaf_may_stay is set if the step supports it; a
  /// caller whose gradient is freed at the end of the phase resets it.
  virtual GradTarget grad_target() = 0;
  /// End of phase reduce: G is in that target, or it is the gradient `leaf`, [padded_numel] in the
  /// gradient dtype, which stays valid until update() has been called.
  virtual void end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) = 0;

  /// Phase unscale: g1, found_inf and the loss scaler. Collective over all ranks of the step. Errors: nonfinite if
  /// on_nonfinite is error.
  virtual void unscale() = 0;
  /// Whether found_inf requires to skip the rest of the step; until the next prepare().
  virtual bool skipped() const = 0;
  /// Phase norm. Collective over comm (from stage 1 on) and tp.
  virtual void norm() = 0;
  virtual void clip() = 0;
  /// Start of phase update: values over all elements that are needed before the first of them moves
  /// (trust ratios, R6; orthogonalised momentum, R28). No-op for the other rules. Collective over
  /// comm (from stage 1 on) and tp.
  virtual void prepare_update() {}
  /// Before it: the norms of elements whose state is elsewhere, [num_tensors], which it adds to its
  /// own.
  virtual void add_trust_norms(Span<const TrustNorms> /*norms*/) {
    fail(ErrorCode::internal, "this step has no trust ratios",
         "norms of a part of its elements were given to it", "report this as a defect");
  }
  /// Phase update, and counts the step. The fused form also casts.
  virtual void update() = 0;  // update and cast: of the elements whose state is in the shard
  /// Phase cast: the shard's parameters. No-op in the fused form, except that for parameters with
  /// scales all work is done here; for these collective over comm (from stage 1 on) and tp.
  virtual void cast() = 0;

  /// Results of a phase, as in DistributedOptimizer; nothing for cast and gather, whose buffers
  /// belong to the optimizer.
  virtual std::vector<ExposedBuffer> exposed(Phase phase) = 0;
  virtual void overwritten(Phase phase) = 0;

  /// Whether the gradient is still G when update() starts, instead of g.
  virtual bool fused() const = 0;
  /// The decision of the step, from the end of phase clip on, with the current counts.
  virtual StepDecision decision() const = 0;

  virtual LossScalerState loss_scaler() const = 0;
  virtual std::int64_t applied_steps() const = 0;
};

/// Makes the step of a rank. The shard outlives it.
using MakeLocalStep = std::function<std::unique_ptr<LocalStep>(RankShard& shard)>;

}  // namespace zeroproof::cuda
