#pragma once
// Two sets of named tensors, compared pair by pair, for diff, golden and --expect.

#include <string>
#include <vector>

#include "verification/compare/tensors/tensor_difference.hpp"

namespace zeroproof::verification {

/// Two tensors to compare. Null: missing in the file, which is reported.
struct TensorPair {
  std::string name;
  const SafeTensor* first = nullptr;
  const SafeTensor* second = nullptr;
};

/// The largest difference over several tensors.
struct GreatestOf {
  Greatest greatest;
  std::string tensor;  ///< "" while nothing differs
};

/// Sums over tensors.
struct TensorTotals {
  std::int64_t tensors = 0, equal_tensors = 0, unmatched_tensors = 0;
  std::int64_t compared = 0, differing = 0;  ///< elements
  bool same_bits = true;                     ///< of the compared elements, NaNs included
  UlpHistogram ulps;                         ///< its index is in the tensor `largest_ulp`
  std::string largest_ulp;
  GreatestOf absolute, relative;

  void add(const TensorDifference& tensor);
};

struct SetComparison {
  std::vector<TensorDifference> tensors;  ///< in the order of the pairs
  TensorTotals totals;

  /// Every tensor is in both, with equal type, shape and bits.
  bool equal() const { return totals.equal_tensors == totals.tensors; }
};

/// Every tensor of either file under its own name, in byte order of the names.
std::vector<TensorPair> pairs_by_name(const SafetensorsHeader& first,
                                      const SafetensorsHeader& second);

/// Compares pair by pair, with at most two pieces of a megabyte in memory. Errors: as
/// SafetensorsReader::read.
SetComparison compare_sets(const SafetensorsReader& first, const SafetensorsReader& second,
                           const std::vector<TensorPair>& pairs);

}  // namespace zeroproof::verification
