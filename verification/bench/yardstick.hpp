#pragma once

#include <vector>

#include "verification/bench/limit_loops.hpp"
#include "verification/bench/product_step.hpp"
#include "verification/bench/rows.hpp"
#include "verification/bench/values.hpp"
#include "verification/bench/worker_team.hpp"

namespace zeroproof::verification::bench {

/// Yardstick of a product row, over the same number of elements in one flat tensor: the operations
/// of a whole step called one after another, and loops that only move its bytes.
class Yardstick {
 public:
  /// leaves and team outlive this. padded_numel: elements of the product's buffers.
  Yardstick(const ProductCase& what, std::int64_t padded_numel, const Leaves& leaves,
            WorkerTeam& team);

  /// For the product to start from, while step() was not called.
  FullState first_state() const { return state_.full(); }

  /// M - 1 additions onto a sum (none for one fp32 gradient, which is read in place; one bf16
  /// gradient is widened), finite check and norm, update.
  void step();

  /// Whether state and parameters have the bits of the contract: for one tensor and M <= 2 the plain sum is the tree.
  bool as_contract(const ContractResult& wanted) const;

  /// "implementations": step(); "addition": one gradient onto a sum; limits of the shapes
  /// "addition" (M > 1), "read", "update".
  std::vector<Row> rows();

 private:
  TensorView leaf(std::int64_t micro_batch) const;
  void add(std::int64_t micro_batch) const;
  Span<const float> summed() const;
  Row limit(const std::string& name, const std::string& shape, const LimitLoop& loop) const;

  ProductCase what_;
  std::int64_t numel_;  ///< without padding
  const Leaves& leaves_;
  WorkerTeam& team_;
  State state_;
  HugeBuffer<float> sum_;
  HugeBuffer<std::uint16_t> param_;
  HugeBuffer<std::uint16_t>
      moved_;  // target of the loops, so that the step's parameters keep their bits
  Exec exec_;
  std::int64_t steps_ = 0;
};

}  // namespace zeroproof::verification::bench
