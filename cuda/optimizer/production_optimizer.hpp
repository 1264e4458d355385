#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/distributed_optimizer.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/grad_reduction.hpp"
#include "cuda/optimizer/host/split_state_step.hpp"
#include "cuda/optimizer/rank_layout.hpp"
#include "cuda/optimizer/rank_memory.hpp"
#include "cuda/optimizer/rank_params.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// One rank of the production optimizer: runs the phases of a step over its memory, its gradient
/// reduction, its LocalStep and its parameters. Subclasses may override single phases.
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
  TensorView leaf_buffer() override { return reduction_.buckets().leaf_buffer(); }
  void run_phase(Phase phase, GradSource& leaves) override;
  bool skipped() const override { return step_->skipped(); }
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  void overwritten(Phase phase) override;
  std::vector<ExposedBuffer> storage() override;
  std::string damaged_guard() const override;
  LossScalerState loss_scaler() const override { return step_->loss_scaler(); }
  std::int64_t applied_steps() const override { return step_->applied_steps(); }
  MemoryUse memory() const override;
  MemoryLedger& ledger() { return memory_.ledger; }

 protected:
  virtual void reduce(GradSource& leaves);
  /// Gradients go to reduction_.buckets() (a BucketSink, then finish); in stage 3 parameters come
  /// from params_.gather (a UnitGatherer).
  virtual void reduce_layered(LayeredModel& model, GradSource& leaves);
  virtual void gather();

  const RankLayout layout_;
  RankMemory memory_;
  RankParams params_;
  GradReduction reduction_;
  RankShard shard_;
  SplitStateStep* offload_step_ = nullptr;  ///< step_, if something is offloaded
  std::unique_ptr<LocalStep> step_;
  bool loaded_ = false;

 private:
  template <class State>
  void load(const State& state);
  void execute(Phase phase, GradSource& leaves);
};

}  // namespace zeroproof::cuda
