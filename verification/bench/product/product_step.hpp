#pragma once

#include <memory>
#include <vector>

#include "common/layout/shard_map.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "verification/bench/measure/contract_step.hpp"
#include "verification/bench/product/leaves.hpp"

namespace zeroproof::verification::bench {

/// The step as a program that links the library has it: make_distributed_optimizer, fused, host.
class ProductStep {
 public:
  /// One rank of comm, which has what.ranks of them. Collective. comm, layout and leaves outlive this; first is read
  /// here
  /// only.
  ProductStep(const ProductCase& what, const FlatLayout& layout, Leaves& leaves, const FullState& first,
              Communicator& comm);

  /// What DistributedOptimizer::step() does, with a clock around Phase::reduce.
  void step();

  DistributedOptimizer& optimizer() { return *optimizer_; }
  /// What it was made with.
  const OptimizerSetup& setup() const { return setup_; }
  std::int64_t steps() const { return steps_; }
  /// Of every step so far.
  const std::vector<double>& reduce_seconds() const { return reduce_seconds_; }

  /// Whether master, moments and parameters of this rank have the bits of the contract, padding left out.
  bool as_contract(const ContractResult& wanted) const;

  /// Whether one more step, with an infinite gradient, is skipped and leaves these bits alone.
  bool skips_infinity(const ContractResult& wanted);

 private:
  const FlatLayout& layout_;
  Leaves& leaves_;
  ShardMap shards_;
  OptimizerSetup setup_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
  std::int64_t steps_ = 0;
  std::vector<double> reduce_seconds_;
};

}  // namespace zeroproof::verification::bench
