#pragma once
// Interface for optimizers that evaluate the loss themselves: loss and gradient at a point of their
// choice.

#include <cstdint>

#include "common/base/span.hpp"

namespace zeroproof {

/// Loss and gradient of one step's micro-batches, as a function of the sharded fp32 master.
///
/// Collective: all ranks evaluate equally often, in the same order. Evaluations are counted here, so that a
/// rank that made one more than the others is found at the end of a step (R21). Every rank has its
/// own object.
class Closure {
 public:
  virtual ~Closure() = default;

  /// f and this rank's shard of its gradient.
  ///
  /// Shapes   master_shard, grad_shard: [shard_numel], in the order of ShardMap::shard(rank), padding
  ///          included; no overlap. Padding of either holds anything.
  /// Units    the mean loss and g1 of R6, without a loss scale.
  /// Exact    bitwise; f is the same bits on all ranks (R21).
  /// Errors   an exception of the closure ends the step at once.
  double evaluate(Span<const float> master_shard, Span<float> grad_shard) {
    ++evaluations_;
    return compute(master_shard, grad_shard);
  }

  /// Calls of evaluate since this object was made.
  std::int64_t evaluations() const { return evaluations_; }

 private:
  /// grad_shard is full of NaN at first; the closure must write every element of every tensor. A
  /// non-finite result is legal: the optimizer then rejects the point.
  virtual double compute(Span<const float> master_shard, Span<float> grad_shard) = 0;

  std::int64_t evaluations_ = 0;
};

}  // namespace zeroproof
