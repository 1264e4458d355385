#pragma once
// What a rank does alone in a step: everything between the sum of its gradients and its shard of new parameters.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
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

/// What a LocalStep works on. The optimizer owns all of it, before the step is made and after it is gone.
struct RankShard {
  const OptimizerSetup& setup;
  const std::vector<FlatRange>& ranges;  ///< what the rank keeps state for
  const host::PieceLoop& pieces;         ///< of the ranges
  CountedBuffer& grad;                   ///< [shard_numel] fp32: G, then what the phases make of it
  CountedBuffer& master;  ///< [shard_numel] fp32 or bf16 (R25); with a split, [resident_numel]
  ParamStore& params;
  RuleState& state;                   ///< as master
  const StateSplit* split = nullptr;  ///< null: the state of all elements is here
  ParamScales* scales = nullptr;      ///< null: parameters have none
  const StateBlocks* tiles =
      nullptr;  ///< what reads and stores it on the host (R25); null: all of it is fp32
  ParamStore* column_params =
      nullptr;  ///< null: no copy by columns has codes of its own, as the next one
  ParamScales* column_scales = nullptr;
};

/// The shard once for every code its masters have (R24), with params and scales of that one: none without scales, one,
/// or the one by columns as well, in the order in which they are made.
inline std::vector<RankShard> scaled_shards(const RankShard& shard) {
  std::vector<RankShard> shards;
  if (shard.scales == nullptr) return shards;
  shards.push_back(shard);
  if (shard.column_scales == nullptr) return shards;
  shards.push_back({shard.setup, shard.ranges, shard.pieces, shard.grad, shard.master,
                    *shard.column_params, shard.state, shard.split, shard.column_scales,
                    shard.tiles});
  return shards;
}

/// The elements of a piece, in a buffer of the shard.
template <class T = float>
Span<T> part(const CountedBuffer& buffer, const Piece& piece) {
  return buffer->as<T>().subspan(static_cast<std::size_t>(piece.local_begin),
                                 static_cast<std::size_t>(piece.numel));
}

/// For joining neighbours (PieceLoop::run_joined) where every element is treated alike.
inline bool any_tensors(const Piece& /*a*/, const Piece& /*b*/) { return true; }

/// The scalars, unscale, norm, clip, update and cast of one rank. The optimizer calls every function, in the order of
/// the phases; what ranks tell each other there is a few words, never elements.
class LocalStep {
 public:
  virtual ~LocalStep() = default;

  /// Takes counters, scaler and scales, and casts the shard's parameters from master. master and the rule's buffers are
  /// loaded. Collective as cast().
  virtual void load(const FullState& state) = 0;

  /// The same for a shard that is not all fp32, which `read` fills piece by piece, in the space of the buffers: state
  /// and master come in fp32, or as codes (StateBlocks::load). Collective over comm, if a block with a scale is cut.
  /// Errors: internal, where everything is fp32.
  virtual void load_stored(const FullState& /*state*/, const StateBlocks::Chosen& /*of_codes*/,
                           const StateBlocks::Change& /*read*/) {
    fail(ErrorCode::internal, "this step keeps its state in fp32", "it cannot read another form",
         "report this as a defect");
  }

  /// Phase prepare: the scalars of the step. Collective over all ranks of the step. Errors: comm if ranks differ.
  virtual void prepare(GradSource& leaves) = 0;

  /// Phase reduce begins: G will be in the gradient buffer.
  virtual void begin_sum() = 0;
  /// Where G goes and who looks at it on the way. leaf_may_stay is what the step can do; a caller whose leaf ends with
  /// the phase takes it back.
  virtual GradTarget grad_target() = 0;
  /// Phase reduce ends: G went to that target, or is the leaf, [padded_numel] in the gradient dtype, which stays where
  /// it is until update() has been called.
  virtual void end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) = 0;

  /// Phase unscale: g1, found_inf and the loss scaler. Collective over all ranks of the step. Errors: nonfinite if
  /// on_nonfinite is error.
  virtual void unscale() = 0;
  /// Whether found_inf says that the rest of the step must not take place; until the next prepare().
  virtual bool skipped() const = 0;
  /// Phase norm. Collective over comm (from stage 1 on) and tp.
  virtual void norm() = 0;
  virtual void clip() = 0;
  /// Phase update, and counts the step. The fused form casts as well.
  virtual void update() = 0;  // update and cast: of the elements whose state is in the shard
  /// Phase cast: the shard's parameters. Nothing in the fused form, but of parameters with scales all there is to do;
  /// for these collective over comm (from stage 1 on) and tp.
  virtual void cast() = 0;

  /// What a phase has made, as in DistributedOptimizer; nothing for cast and gather, whose buffers are the optimizer's.
  virtual std::vector<ExposedBuffer> exposed(Phase phase) = 0;
  virtual void overwritten(Phase phase) = 0;

  /// Whether the gradient is still G when update() begins, instead of g.
  virtual bool fused() const = 0;
  /// What has been settled, from the end of phase clip on; counts as they are now.
  virtual StepDecision decision() const = 0;

  virtual LossScalerState loss_scaler() const = 0;
  virtual std::int64_t applied_steps() const = 0;
};

/// Makes the step of a rank. The shard outlives it.
using MakeLocalStep = std::function<std::unique_ptr<LocalStep>(RankShard& shard)>;

}  // namespace zeroproof::cuda
