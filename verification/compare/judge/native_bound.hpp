#pragma once
// Gradient sums of a communication library, against the bound of R11 (native).

#include <cmath>
#include <cstdint>
#include <vector>

#include "verification/compare/compare.hpp"
#include "verification/training/gradients/grad_cache.hpp"

namespace zeroproof::verification {

/// Sums of the gradients of one step, in fp64, by the global index of the layout.
struct ExactSums {
  std::vector<double> sums, magnitudes;
  std::int64_t terms = 0;  ///< summands of an element: M, with CP parts M * cp

  void add(std::size_t index, double x) {
    sums[index] += x;
    magnitudes[index] += std::fabs(x);
  }
};

/// Elements of `sums` [shard_numel, fp32] whose distance from the exact sum of the gradients
/// exceeds the bound for any order of additions: (M - 1) u / (1 - (M - 1) u) * sum |x|, u = 2^-24
/// [Sum:any_order]. Where a gradient is not finite the sum must not be finite either; where the
/// magnitudes add up to 2^127 or more, any order may overflow and nothing is checked.
Comparison compare_native(const TensorView& sums, const std::vector<Piece>& pieces,
                          GradProvider& leaves, std::int64_t micro_batches);
Comparison compare_native(const TensorView& sums, const std::vector<Piece>& pieces,
                          const ExactSums& exact);

}  // namespace zeroproof::verification
