#pragma once
// Statistics of gradients against the reference, for the host and the device implementation.

#include <doctest.h>

#include <bit>
#include <limits>
#include <vector>

#include "reference/operations.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

inline constexpr float inf = std::numeric_limits<float>::infinity();

/// Segments of 0, 1, 2, ... and very many elements with gaps between them, in rotated order; some
/// tensors have several, and one has none. Counts are added to existing ones.
inline void check_stats(GradStatsFn* implementation, const Exec& exec) {
  const std::vector<std::int64_t> numels = {0,    1,    2,     3,     7,     31,    33,    64,
                                            1023, 1025, 16384, 16385, 65536, 65537, 300001};
  std::vector<float> grad;
  std::vector<GradSegment> segments;
  for (std::size_t t = 0; t < numels.size(); ++t) {
    grad.resize(grad.size() + t % 5, inf);  // between segments
    segments.insert(segments.begin(), {static_cast<std::int64_t>(grad.size()), numels[t],
                                       static_cast<std::int64_t>(t / 2)});
    for (std::int64_t i = 0; i < numels[t]; ++i) {
      float value = -static_cast<float>(t) - 0.5F;
      if (i % 5 == 1) value = i % 2 == 0 ? 0.0F : -0.0F;
      if (t % 3 == 2 && i % 7 == 2) value = std::bit_cast<float>(0x80000001U);
      if (t % 4 != 1 && i % 1000 == 998) value = -inf;
      if (t % 4 == 3 && i % 3000 == 2997) value = std::bit_cast<float>(0xFFC00001U);
      grad.push_back(value);
    }
  }
  std::vector<GradStats> stats(numels.size() / 2 + 2);
  stats[0].num_zeros = 100;
  stats.back() = {7, 8, 9};  // no segment
  std::vector<GradStats> want = stats;
  for (int round = 0; round < 2; ++round) {
    implementation(exec, grad, segments, stats);
    reference::grad_stats({}, grad, segments, want);
    CHECK(stats == want);
  }
  implementation(exec, grad, {}, stats);
  CHECK(stats == want);
  implementation(exec, {}, {}, {});
}

inline void check_stats_refused(GradStatsFn* implementation, const Exec& exec) {
  const std::vector<float> grad(10, inf);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const GradSegment& wrong :
       {GradSegment{-1, 2, 0}, GradSegment{0, -1, 0}, GradSegment{9, 2, 0}, GradSegment{11, 0, 0},
        GradSegment{1, most, 0}, GradSegment{0, 1, 2}, GradSegment{0, 1, -1}}) {
    std::vector<GradStats> stats(2);
    const std::vector<GradSegment> segments = {{0, 10, 1}, wrong};
    expect_error(ErrorCode::invalid_argument, [&] { implementation(exec, grad, segments, stats); });
    CHECK(stats[1] == GradStats{});
  }
}

}  // namespace zeroproof::tests
