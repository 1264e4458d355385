#pragma once

#include "common/step/distributed_optimizer.hpp"
#include "verification/bench/measure/contract_step.hpp"
#include "verification/bench/measure/huge_buffer.hpp"
#include "verification/bench/measure/limit_loops.hpp"
#include "verification/bench/measure/worker_team.hpp"
#include "verification/bench/product/leaves.hpp"

namespace zeroproof::verification::bench {

/// The yardsticks of a product row, over as many elements as one flat tensor: the twins of a whole step called one
/// after another, and loops that only move its bytes.
class TwinStep {
 public:
  /// leaves and team outlive this. padded_numel: elements of the product's buffers, which are made from this one's.
  TwinStep(const ProductCase& what, std::int64_t padded_numel, const Leaves& leaves, WorkerTeam& team);

  /// The state before the first step, for the product to start from. [padded_numel]; valid while step() was not called.
  FullState first_state() const;

  /// M - 1 additions onto a sum (none for one fp32 leaf, which is read where it lies; one bf16 leaf is widened), finite
  /// check and norm, update.
  void step();
  std::int64_t steps() const { return steps_; }

  /// One addition of a leaf onto a sum.
  void accumulate();

  /// Whether state and parameters have the bits of the contract: for one tensor and M <= 2 the plain sum is the tree.
  bool as_contract(const ContractResult& wanted) const;

  // The bytes of a step, moved by loops without arithmetic: an addition, the pass that reads, the pass that updates.
  void move_addition(const LimitLoops& loops) const;
  void move_read(const LimitLoops& loops) const;
  void move_update(const LimitLoops& loops, bool streamed) const;

  const ProductCase& what() const { return what_; }

 private:
  TensorView leaf(std::int64_t micro_batch) const;
  void add(std::int64_t micro_batch) const;
  Span<const float> summed();

  ProductCase what_;
  std::int64_t numel_;  ///< of the yardsticks: without padding
  const Leaves& leaves_;
  WorkerTeam& team_;
  HugeBuffer<float> master_, exp_avg_, exp_avg_sq_, sum_;
  HugeBuffer<std::uint16_t> param_;
  HugeBuffer<std::uint16_t> moved_;  // target of the loops, so that the twins' parameters keep their bits
  std::int64_t steps_ = 0;
};

}  // namespace zeroproof::verification::bench
