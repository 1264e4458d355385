#pragma once
// Shapes of steps whose plans several tests use.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/optimizer/overlap/step_plan.hpp"

namespace zeroproof::tests::inline runtime_fixtures {

/// Ranges of these lengths, one after another.
inline std::vector<FlatRange> neighbours(const std::vector<std::int64_t>& lengths) {
  std::vector<FlatRange> ranges;
  std::int64_t end = 0;
  for (const std::int64_t length : lengths) {
    ranges.push_back({end, end + length});
    end += length;
  }
  return ranges;
}

/// The operations of a plan, one per line; comm operations are indented.
inline std::string text_of(const cuda::StepPlan& plan) {
  std::string text;
  for (const cuda::PlanOp& op : plan.ops) {
    text += (op.stream == cuda::PlanStream::comm ? "  " : "") + name(op);
    for (const int event : op.waits) text += " <" + std::to_string(event);
    if (op.records >= 0) text += " >" + std::to_string(op.records);
    text += "\n";
  }
  return text;
}

/// Tied, repeated, empty and persistent units; buckets inside, around and across units.
inline cuda::LayerSchedule random_shape(std::uint64_t seed) {
  const Philox random(seed, 77);
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t bound) {
    return static_cast<std::int64_t>(random.below(drawn += 2, bound));
  };
  cuda::LayerSchedule shape;
  std::vector<std::int64_t> units;
  std::int64_t total = 0;
  const std::int64_t num_units = 1 + below(6);
  for (std::int64_t u = 0; u < num_units; ++u) {
    units.push_back(below(8) == 0 ? 0 : 1 + below(40));
    total += units.back();
    shape.visits.push_back(static_cast<int>(u));
    if (below(4) == 0)
      shape.visits.push_back(static_cast<int>(below(static_cast<std::uint64_t>(u + 1))));
    shape.persistent.push_back(below(5) == 0);
  }
  std::vector<std::int64_t> buckets;
  for (std::int64_t left = total; left > 0; left -= buckets.back()) {
    buckets.push_back(1 + below(static_cast<std::uint64_t>(left < 50 ? left : 50)));
  }
  shape.units = neighbours(units);
  shape.buckets = neighbours(buckets);
  shape.stage = 2 + static_cast<int>(below(2));
  shape.overlap = below(4) != 0;
  return shape;
}

}  // namespace zeroproof::tests::inline runtime_fixtures
