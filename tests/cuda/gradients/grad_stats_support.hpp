#pragma once
// Gradients whose statistics can be counted by hand, for the host and the device implementation.

#include <doctest.h>

#include <bit>
#include <limits>
#include <vector>

#include "common/contracts/grad_stats.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

inline constexpr float inf = std::numeric_limits<float>::infinity();

inline void check_stats_by_hand(GradStatsFn* implementation, const Exec& exec) {
  const float nan = std::bit_cast<float>(0xFFC00001U);
  const float tiny = std::bit_cast<float>(0x80000001U);
  // tensor 1 twice, an empty segment, a gap with NaN outside all segments, and tensor 0 last
  const std::vector<float> grad = {0.0F, -0.0F, tiny, -2.5F, 1.0F, nan,
                                   inf,  -inf,  nan,  0.0F,  tiny, 3.0F};
  const std::vector<GradSegment> segments = {{6, 2, 1}, {5, 0, 2}, {9, 2, 1}, {0, 5, 0}, {8, 1, 3}};
  std::vector<GradStats> stats(6);
  stats[0].num_zeros = 100;
  stats[4] = {7, 8, 9};
  implementation(exec, grad, segments, stats);
  CHECK(stats[0] == GradStats{std::bit_cast<std::uint32_t>(2.5F), 0, 102});
  CHECK(stats[1] == GradStats{0x7F800000, 2, 1});
  CHECK(stats[2] == GradStats{});
  CHECK(stats[3] == GradStats{0x7FFFFFFF, 1, 0});
  CHECK(stats[4] == GradStats{7, 8, 9});  // no segment
  CHECK(stats[5] == GradStats{});
  implementation(exec, grad, {segments.data() + 3, 1},
                 {stats.data(), 1});  // counts grow, the maximum is unchanged
  CHECK(stats[0] == GradStats{std::bit_cast<std::uint32_t>(2.5F), 0, 104});
  implementation(exec, grad, {}, stats);
  implementation(exec, {}, {}, {});
}

/// Segments of 0, 1, 2, ... and very many elements, in one buffer, in rotated order. Every 5th
/// element is a zero, every 1000th infinite, and the largest finite one is the number of its
/// segment.
inline void check_stats_of_sizes(GradStatsFn* implementation, const Exec& exec) {
  const std::vector<std::int64_t> numels = {0,    1,    2,     3,     7,     31,    33,    64,
                                            1023, 1025, 16384, 16385, 65536, 65537, 300001};
  std::vector<float> grad;
  std::vector<GradSegment> segments;
  std::vector<GradStats> expected(numels.size()), stats(numels.size());
  for (std::size_t t = 0; t < numels.size(); ++t) {
    grad.resize(grad.size() + t % 5, inf);  // between segments
    segments.insert(segments.begin(), {static_cast<std::int64_t>(grad.size()), numels[t],
                                       static_cast<std::int64_t>(t)});
    for (std::int64_t i = 0; i < numels[t]; ++i) {
      float value = -static_cast<float>(t) - 0.5F;
      if (i % 5 == 1) value = i % 2 == 0 ? 0.0F : -0.0F;
      if (i % 1000 == 998) value = -inf;
      expected[t].num_zeros += value == 0.0F ? 1 : 0;
      expected[t].num_nonfinite += value == -inf ? 1 : 0;
      grad.push_back(value);
    }
    if (numels[t] > 0)
      expected[t].amax =
          std::bit_cast<std::uint32_t>(numels[t] > 998 ? inf : static_cast<float>(t) + 0.5F);
  }
  implementation(exec, grad, segments, stats);
  for (std::size_t t = 0; t < numels.size(); ++t) {
    CAPTURE(numels[t]);
    CHECK(stats[t] == expected[t]);
  }
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
