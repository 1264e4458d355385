#pragma once
// A function L-BFGS minimises: its tensors, where it starts, and who evaluates it on a rank.

#include <memory>
#include <vector>

#include "verification/training/lbfgs/implementation.hpp"
#include "verification/training/lbfgs/recipe.hpp"

namespace zeroproof::verification {

class LbfgsProblem {
 public:
  virtual ~LbfgsProblem() = default;

  virtual const FlatLayout& layout() const = 0;

  /// Bucket size of its shard maps, in elements.
  virtual std::int64_t bucket_numel() const = 0;

  /// Where the first step begins, [padded_numel]; padding is NaN.
  virtual const std::vector<float>& start() const = 0;

  /// Evaluates on one rank, with the operations of an implementation. step: counted from 1. The place and the problem outlive it.
  virtual std::unique_ptr<Closure> closure(const LbfgsSetup& place,
                                           const LbfgsImplementation& implementation,
                                           std::int64_t step) const = 0;
};

}  // namespace zeroproof::verification
