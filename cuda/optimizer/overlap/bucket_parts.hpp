#pragma once
// Units that contribute to the gradient of each bucket.

#include <cstddef>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof::cuda {

/// Elements that a bucket and a unit have in common, in the global numbering; never empty.
struct BucketPart {
  int unit = 0;
  FlatRange range;
};

/// The parts of every bucket, in increasing order. A bucket with one part is inside one unit.
///
/// Shapes   units, buckets: each neighbours in increasing order; units may be empty, buckets not.
/// Errors   invalid_argument if they are not, or do not start at 0 and end at the same element.
std::vector<std::vector<BucketPart>> bucket_parts(const std::vector<FlatRange>& units,
                                                  const std::vector<FlatRange>& buckets);

/// The same from the other side: the buckets that have elements of each unit, in increasing order.
std::vector<std::vector<int>> buckets_of_units(const std::vector<std::vector<BucketPart>>& parts,
                                               std::size_t num_units);

}  // namespace zeroproof::cuda
