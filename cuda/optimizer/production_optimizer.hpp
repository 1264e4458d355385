#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/exchange/shared_buffers.hpp"
#include "cuda/comm/exchange/shared_memory_group.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/offload/offloaded_grad_buffer.hpp"
#include "cuda/optimizer/host/split_state_step.hpp"
#include "cuda/optimizer/overlap/memory_ledger.hpp"
#include "cuda/optimizer/overlap/plan_runner.hpp"
#include "cuda/optimizer/params/param_columns.hpp"
#include "cuda/optimizer/params/param_gather.hpp"
#include "cuda/optimizer/params/param_scales.hpp"
#include "cuda/optimizer/params/param_store.hpp"
#include "cuda/optimizer/state/local_step.hpp"
#include "cuda/optimizer/state/rule_state.hpp"
#include "cuda/reduce/bucket_reduce.hpp"

namespace zeroproof::cuda {

/// One rank of the production optimizer: its buffers, and the collective parts of a step. The local
/// part is its LocalStep. Subclasses may override single phases.
class ProductionOptimizer : public DistributedOptimizer {
 public:
  /// space: memory space of its buffers; all work on a device is enqueued on the current stream.
  /// ops: the implementations that add gradients on the host, and update offloaded elements; they
  /// outlive this. make_step is called once. comm_groups: communicators in that space; by default,
  /// those of the setup.
  ProductionOptimizer(const OptimizerSetup& setup, Space space, const KernelTable& ops,
                      const MakeLocalStep& make_step,
                      const std::optional<CommGroups>& comm_groups = {},
                      const OffloadMakers& offload = {});

  ProductionOptimizer(const ProductionOptimizer&) = delete;
  ProductionOptimizer& operator=(const ProductionOptimizer&) = delete;

  void load_state(const FullState& state) override;
  void load_state_from(const StateSource& source) override;
  TensorView leaf_buffer() override { return reduce_.leaf_buffer(); }
  void run_phase(Phase phase, GradSource& leaves) override;
  bool skipped() const override { return step_->skipped(); }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  void overwritten(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  std::string damaged_guard() const override;
  LossScalerState loss_scaler() const override { return step_->loss_scaler(); }
  std::int64_t applied_steps() const override { return step_->applied_steps(); }
  MemoryUse memory() const override;
  MemoryLedger& ledger() { return ledger_; }

 protected:
  virtual void reduce(GradSource& leaves);
  /// Gradients go to reduce_ (a BucketSink, then finish); in stage 3 parameters come from params_ (a UnitGatherer).
  virtual void reduce_layered(LayeredModel& model, GradSource& leaves);
  virtual void gather();

  const OptimizerSetup setup_;
  const CommGroups comm_groups_;
  const std::vector<FlatRange> ranges_;  // elements whose state is on this rank
  const host::PieceLoop pieces_;
  const std::vector<BucketPlan> plans_;
  MemoryLedger ledger_;  // before everything that is counted on it
  const std::unique_ptr<SharedMemoryGroup> shared_memory_group_;  ///< null: by messages only
  GradMemory memory_;
  BucketReduce reduce_;
  const std::unique_ptr<StateSplit> split_;  ///< null: nothing is offloaded, as the next one
  const std::unique_ptr<OffloadedState> offloaded_;  ///< before the step
  const std::unique_ptr<OffloadedGradBuffer>
      offloaded_grads_;                  ///< null: G is with the other buffers
  std::unique_ptr<SharedBuffers> sums_;  ///< stage 0 on ranks of one machine: where grad_ is
  CountedBuffer grad_;  // G, unless it is a micro-batch gradient, then later phases' values
  CountedBuffer master_;
  ParamStore param_store_;
  ParamGather params_;
  RuleState state_;
  const std::unique_ptr<StateBlocks> tiles_;  ///< null: state and master are fp32, or on a device
  ParamScales scales_;
  ParamColumns columns_;
  RankShard shard_;
  SplitStateStep* offload_step_ = nullptr;  ///< step_, if something is offloaded
  std::unique_ptr<LocalStep> step_;         // after everything in the shard
  std::unique_ptr<PlanRunner>
      executor_;  ///< of layers; keeps its communication thread, or stream, over steps
  bool loaded_ = false;

 private:
  /// Reads the elements of a buffer in the rank's flat numbering, from `begin` on; they are in that
  /// space.
  using ReadState = std::function<void(const MemorySpace& space, BufferId id, std::int64_t begin,
                                       Span<float> local)>;
  /// has: whether the buffer exists.
  void load(const Exec& exec, const FullState& counters, const std::function<bool(BufferId)>& has,
            const ReadState& read);
  void load_resident(const Exec& exec, const ReadState& read);
  /// Loads state and master that are not stored in fp32.
  void load_stored(const FullState& counters, const std::function<bool(BufferId)>& has,
                   const ReadState& read);

  void load_offloaded(const ReadState& read);
  std::int64_t resident_numel() const;

  std::unique_ptr<PlanRunner> make_runner() const;
  void execute(Phase phase, GradSource& leaves);
};

}  // namespace zeroproof::cuda
