#pragma once

#include <memory>
#include <utility>

#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/overlap/plan_runner.hpp"
#include "cuda/optimizer/rank_memory.hpp"
#include "cuda/optimizer/rank_params.hpp"
#include "cuda/optimizer/state/local_step.hpp"
#include "cuda/reduce/bucket_reduce.hpp"

namespace zeroproof::cuda {

/// Phase reduce of one rank: whole gradients, or those of a model that runs layer by layer, become
/// the G of its LocalStep. Collective over comm and the instances.
class GradReduction {
 public:
  /// ops: the implementations that add gradients on the host. All of it outlives this.
  GradReduction(const RankLayout& layout, RankMemory& memory, const KernelTable& ops);

  void reduce(GradSource& leaves, LocalStep& step);
  /// Stages 2 and 3 reduce buckets while the layers run; stage 3 gathers their parameters.
  void reduce_layered(LayeredModel& model, GradSource& leaves, RankParams& params, LocalStep& step);

  BucketReduce& buckets() { return buckets_; }
  /// Replaces the runner of layers, before the first step.
  void use_runner(std::unique_ptr<PlanRunner> runner) { runner_ = std::move(runner); }

 private:
  std::unique_ptr<PlanRunner> make_runner() const;

  const RankLayout& layout_;
  RankMemory& memory_;
  BucketReduce buckets_;
  std::unique_ptr<PlanRunner> runner_;  ///< keeps its communication thread, or stream, over steps
};

}  // namespace zeroproof::cuda
