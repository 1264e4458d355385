#include "cuda/optimizer/overlap/bucket_parts.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda {
namespace {

/// Returns the end of the last range.
std::int64_t require_neighbours(const std::vector<FlatRange>& ranges, const std::string& what,
                                std::int64_t least) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    ZP_CHECK(ranges[i].begin == end && ranges[i].end >= end + least, ErrorCode::invalid_argument,
             what + " " + std::to_string(i) + " is [" + std::to_string(ranges[i].begin) + ", " +
                 std::to_string(ranges[i].end) + ") and the previous one ends at " +
                 std::to_string(end),
             "every element must be in exactly one " + what + ", and buckets are never empty",
             "start each " + what + " at the end of the previous one, the first at 0");
    end = ranges[i].end;
  }
  return end;
}

}  // namespace

std::vector<std::vector<BucketPart>> bucket_parts(const std::vector<FlatRange>& units,
                                                  const std::vector<FlatRange>& buckets) {
  const std::int64_t units_end = require_neighbours(units, "unit", 0);
  const std::int64_t buckets_end = require_neighbours(buckets, "bucket", 1);
  ZP_CHECK(units_end == buckets_end, ErrorCode::invalid_argument,
           "the units end at " + std::to_string(units_end) + " and the buckets at " +
               std::to_string(buckets_end),
           "both must contain all elements", "build units and buckets for the same layout");
  std::vector<std::vector<BucketPart>> parts(buckets.size());
  std::size_t unit = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    while (unit > 0 && units[unit].begin > buckets[b].begin) --unit;
    for (; unit < units.size() && units[unit].begin < buckets[b].end; ++unit) {
      const FlatRange common{std::max(units[unit].begin, buckets[b].begin),
                             std::min(units[unit].end, buckets[b].end)};
      if (common.numel() > 0) parts[b].push_back({static_cast<int>(unit), common});
    }
    if (unit == units.size() && unit > 0) --unit;
  }
  return parts;
}

std::vector<std::vector<int>> buckets_of_units(const std::vector<std::vector<BucketPart>>& parts,
                                               std::size_t num_units) {
  std::vector<std::vector<int>> buckets(num_units);
  for (std::size_t b = 0; b < parts.size(); ++b) {
    for (const BucketPart& part : parts[b]) buckets[part.unit].push_back(static_cast<int>(b));
  }
  return buckets;
}

}  // namespace zeroproof::cuda
