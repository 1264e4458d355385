#pragma once
// Gradient sums a communication library made, against the bound of R11 (native).

#include <vector>

#include "verification/compare.hpp"
#include "verification/leaf_cache.hpp"

namespace zeroproof::verification {

/// Elements of `sums` [shard_numel, fp32] that are further from the exact sum of the leaves than any order of additions
/// may leave them: (M - 1) u / (1 - (M - 1) u) * sum |x|, u = 2^-24 [Sum:any_order]. Where a leaf is not finite the sum must
/// not be finite either; where the magnitudes add up to 2^127 or more, any order may overflow and nothing is asked.
Comparison compare_native(const TensorView& sums, const std::vector<Piece>& pieces, LeafProvider& leaves,
                          std::int64_t micro_batches);

}  // namespace zeroproof::verification
