#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/distributed_optimizer.hpp"
#include "cuda/exchange/near_ranks.hpp"
#include "cuda/exchange/shared_buffers.hpp"
#include "cuda/phase_ops.hpp"
#include "cuda/reduce/bucket_reduce.hpp"
#include "cuda/runtime/memory_ledger.hpp"
#include "cuda/runtime/plan_executor.hpp"
#include "cuda/zero/global_norm.hpp"
#include "cuda/zero/param_gather.hpp"
#include "cuda/zero/param_store.hpp"
#include "cuda/zero/rule_state.hpp"
#include "cuda/zero/step_sum.hpp"
#include "cuda/zero/tensor_steps.hpp"

namespace zeroproof::cuda {

/// The elements of a piece, in a buffer of the shard.
template <class T = float>
Span<T> part(const CountedBuffer& buffer, const Piece& piece) {
  return buffer->as<T>().subspan(static_cast<std::size_t>(piece.local_begin),
                                 static_cast<std::size_t>(piece.numel));
}

/// For joining neighbours (PieceLoop::run_joined) where every element is treated alike.
inline bool any_tensors(const Piece& /*a*/, const Piece& /*b*/) { return true; }

/// One rank of the production optimizer. Phases are in production_optimizer.cpp, what taps see in
/// production_views.cpp. A class of one's own may write a phase anew; the others stay as they are.
class ProductionOptimizer : public DistributedOptimizer {
 public:
  /// fused: only with space host. ops: the twins that are called, those of the space or others; they outlive this.
  ProductionOptimizer(const OptimizerSetup& setup, Space space, bool fused, const PhaseOps& ops);

  ProductionOptimizer(const ProductionOptimizer&) = delete;
  ProductionOptimizer& operator=(const ProductionOptimizer&) = delete;

  void load_state(const FullState& state) override;
  TensorView leaf_buffer() override { return reduce_.leaf_buffer(); }
  void run_phase(Phase phase, GradSource& leaves) override;
  bool skipped() const override { return found_inf_ != 0 && setup_.on_nonfinite != OnNonfinite::propagate; }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  void overwritten(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  std::string damaged_guard() const override;
  LossScalerState loss_scaler() const override { return scaler_; }
  std::int64_t applied_steps() const override { return static_cast<std::int64_t>(steps_.applied_steps()); }
  MemoryUse memory() const override { return ledger_.use(); }

 protected:
  virtual void prepare(GradSource& leaves);
  virtual void reduce(GradSource& leaves);
  /// Gradients go to reduce_ (a BucketSink, then finish); in stage 3 parameters come from params_ (a UnitGatherer).
  virtual void reduce_layered(LayeredModel& model, GradSource& leaves);
  /// The gradient buffer. In the fused form the finite check, and what it can find of the norm, are made while G is
  /// added up: whoever passes this on says so afterwards (StepSum::set_looked_at).
  GradTarget grad_target();
  virtual void unscale();
  virtual void norm();
  virtual void clip();
  virtual void update();
  /// piece: of one tensor, or joined ones that have the same scalars.
  virtual void update_piece(const Exec& exec, const Piece& piece);
  virtual void update_fused();
  virtual void cast();
  virtual void gather();
  /// Random words of a piece's stochastic rounding, `updates_ahead` of the updates that have been counted.
  virtual RoundingDraw draw(const Piece& piece, std::uint64_t updates_ahead) const;
  /// Calls body(part) for stretches of a piece that draw neighbouring random words: rows of the undistributed tensor.
  template <class Body>
  void for_draws(const Piece& piece, const Body& body) const;
  void cast_piece(const Exec& exec, const Piece& piece);
  /// True if two neighbours draw neighbouring random words in the same step, or none.
  bool rounded_alike(const Piece& a, const Piece& b) const;
  /// False for elements that TP rank 0 counts in the norm (R12).
  bool counted(const Piece& piece) const;
  ExposedBuffer sharded(BufferId id, const GuardedBuffer& buffer) const {
    return {id, buffer.view(), ranges_};
  }

  const OptimizerSetup setup_;
  const bool fused_;
  const PhaseOps& ops_;
  const std::vector<FlatRange> ranges_;  // what this rank keeps state for
  const host::PieceLoop pieces_;
  const std::vector<BucketPlan> plans_;
  MemoryLedger ledger_;                    // before everything that is counted on it
  const std::unique_ptr<NearRanks> near_;  ///< null: by messages only
  GradMemory memory_;
  BucketReduce reduce_;
  std::unique_ptr<SharedBuffers> sums_;  ///< stage 0 on ranks of one machine: where grad_ is
  CountedBuffer grad_;                   // G, then g1, then g (phases); G only (fused), unless it is a leaf
  CountedBuffer master_;
  ParamStore param_store_;
  ParamGather params_;
  RuleState state_;
  StepSum sum_;
  TensorSteps steps_;
  GlobalNorm global_norm_;
  std::unique_ptr<PlanExecutor> executor_;  ///< of layers; keeps its communication thread over steps
  LossScalerState scaler_;
  std::uint32_t found_inf_ = 0;
  bool loaded_ = false;
  double grad_norm_ = 0;
  float clip_coef_ = 1;

 private:
  void execute(Phase phase, GradSource& leaves);
};

}  // namespace zeroproof::cuda
