#pragma once
// A function to be minimised by L-BFGS: its tensors, first point, and closures.

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

  /// The first point, [padded_numel]; padding is NaN.
  virtual const std::vector<float>& start() const = 0;

  /// A closure for one rank, with the operations of an implementation. step: counted from 1. The
  /// place and the problem must outlive it.
  virtual std::unique_ptr<Closure> closure(const LbfgsSetup& place,
                                           const LbfgsImplementation& implementation,
                                           std::int64_t step) const = 0;
};

}  // namespace zeroproof::verification
