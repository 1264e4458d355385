#pragma once
// A step of the production optimizer on the host, as a program with the library calls it.

#include <memory>
#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"
#include "common/layout/shard_map.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "verification/bench/contract_step.hpp"
#include "verification/bench/huge_buffer.hpp"

namespace zeroproof::verification::bench {

/// AdamW, a norm of 1 that clips, chunk1024, finite check, bf16 parameters.
struct ProductCase {
  std::int64_t micro_batches = 1;
  std::int64_t tensors = 1;
  int stage = 0;
  DType grad_dtype = DType::fp32;  ///< fp32 or bf16
  std::int64_t numel = std::int64_t{1} << 24;
  std::int64_t bucket_numel = std::int64_t{1} << 18;  ///< a multiple of layout_alignment
  int threads = 1;                                    ///< of each rank
  int ranks = 1;                                      ///< threads of one process, or processes
  Offload offload = {};
  Windows windows = Windows::on;

  /// Different gradients: further micro-batches start again with the first. No power of two, so
  /// that no two nodes of the tree are equal.
  std::int64_t num_leaves() const { return micro_batches < 5 ? micro_batches : 5; }

  /// "M = 4, 69 tensors, stage 1, bf16 gradients"
  std::string text() const;
};

/// Tensors as equal as can be, the first ones longer by one element.
FlatLayout layout_of(const ProductCase& what);

/// Errors: invalid_argument for fewer elements than tensors; unavailable if the memory does not suffice.
void require_possible(const ProductCase& what);

/// The gradients of micro-batches, all generated before the measurement. Padding has values like
/// those of the tensors: a step that counted them would have another norm.
class Leaves final : public GradSource {
 public:
  /// Gradients [range.begin, range.end); micro-batch m has gradient m modulo their number, counted
  /// from range.begin. padded_numel: elements of each.
  Leaves(const ProductCase& what, std::int64_t padded_numel, const FlatRange& range);
  Leaves(const ProductCase& what, std::int64_t padded_numel)
      : Leaves(what, padded_numel, {0, what.num_leaves()}) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override { return view(micro_batch); }
  TensorView view(std::int64_t micro_batch) const;

  /// Moves the last gradient into memory of the optimizer.
  void move_last(const TensorView& to) {
    views_.back() = to;
    memory_.pop_back();
    fill(views_.size() - 1);
  }

  /// Sets the first element of the first gradient to infinity, or restores it.
  void set_infinite(bool infinite);

 private:
  void fill(std::size_t index) const;

  std::int64_t first_;
  int threads_;
  std::vector<HugeBuffer<float>> memory_;  // for 16-bit gradients the first half is used
  std::vector<TensorView> views_;          // [leaves]
  std::uint32_t finite_ = 0;               // bits of the element that is infinite now
};

/// make_distributed_optimizer, fused.
class ProductStep {
 public:
  /// One rank of comm, which has what.ranks of them. Collective. comm, layout and leaves must
  /// outlive this object; first is only read here.
  ProductStep(const ProductCase& what, const FlatLayout& layout, Leaves& leaves,
              const FullState& first, Communicator& comm);

  /// DistributedOptimizer::step() with a clock around Phase::reduce.
  void step();

  DistributedOptimizer& optimizer() { return *optimizer_; }
  const OptimizerSetup& setup() const { return setup_; }
  std::int64_t steps() const { return steps_; }
  /// Of all steps so far.
  const std::vector<double>& reduce_seconds() const { return reduce_seconds_; }

  /// Whether master, moments and parameters of this rank have the bits of the contract, padding left out.
  bool as_contract(const ContractResult& wanted) const;

  /// Whether one more step, with an infinite gradient, is skipped and keeps these bits.
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
