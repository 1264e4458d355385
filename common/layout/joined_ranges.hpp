#pragma once
// Ranges as one set of numbers.

#include <algorithm>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// The same numbers in as few ranges as possible, in increasing order: ranges that overlap or touch
/// are merged.
inline std::vector<FlatRange> joined_ranges(std::vector<FlatRange> ranges) {
  std::ranges::sort(ranges, {}, &FlatRange::begin);
  std::vector<FlatRange> joined;
  for (const FlatRange& range : ranges) {
    if (!joined.empty() && range.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

}  // namespace zeroproof
