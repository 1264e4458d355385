// Statistics of a gradient that overflowed: integers, by hand.

#include <limits>

#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace grad_stats_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr float tiny = std::numeric_limits<float>::denorm_min();
constexpr std::uint32_t inf_bits = 0x7F800000U;
constexpr std::uint32_t nan_bits = 0x7FFFFFFFU;

std::vector<GradStats> stats_of(const std::vector<float>& grad,
                                const std::vector<GradSegment>& segments,
                                std::vector<GradStats> stats) {
  reference::grad_stats({}, grad, segments, stats);
  return stats;
}

GradStats stats_of(const std::vector<float>& grad) {
  return stats_of(grad, {{0, static_cast<std::int64_t>(grad.size()), 0}}, std::vector<GradStats>(1))
      .front();
}

}  // namespace

TEST_CASE("grad_stats: numbers of one tensor") {
  CHECK(stats_of({}) == GradStats{0, 0, 0});
  CHECK(stats_of({1.0F}) == GradStats{0x3F800000U, 0, 0});
  CHECK(stats_of({1.0F, -2.0F, 0.5F}) == GradStats{0x40000000U, 0, 0});
  CHECK(stats_of({0.0F, -0.0F, 3.0F}) == GradStats{0x40400000U, 0, 2});
  CHECK(stats_of({tiny, -tiny}) == GradStats{1, 0, 0});  // subnormal numbers are not zeros
  CHECK(stats_of({std::numeric_limits<float>::max()}) == GradStats{0x7F7FFFFFU, 0, 0});
  CHECK(stats_of({1.0F, inf32, 0.0F, -inf32}) == GradStats{inf_bits, 2, 1});
}

TEST_CASE("grad_stats: every NaN is the largest magnitude, with any bits and sign") {
  for (const std::uint32_t bits :
       {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU}) {
    CHECK(stats_of({inf32, std::bit_cast<float>(bits), -1.0F}) == GradStats{nan_bits, 2, 0});
    CHECK(stats_of({std::bit_cast<float>(bits)}) == GradStats{nan_bits, 1, 0});
  }
}

TEST_CASE(
    "grad_stats: several segments of a tensor, in any order; a tensor without segments is "
    "unchanged") {
  //                               0     1    2     3     4     5     6    7
  const std::vector<float> grad = {1.0F, inf32, 0.0F, 4.0F, 0.0F, 2.0F, nan32, 0.0F};
  const std::vector<GradStats> stats = stats_of(
      grad, {{5, 1, 2}, {0, 2, 0}, {8, 0, 1}, {2, 0, 0}, {2, 3, 2}}, std::vector<GradStats>(4));
  CHECK(stats[0] == GradStats{inf_bits, 1, 0});
  CHECK(stats[1] == GradStats{});  // its segment is empty, at the end of the buffer
  CHECK(stats[2] == GradStats{0x40800000U, 0, 2});  // 0, 4, 0 and 2
  CHECK(stats[3] == GradStats{});
}

TEST_CASE("grad_stats: overlapping segments are counted once each") {
  const std::vector<float> grad = {0.0F, inf32, 0.0F};
  const std::vector<GradStats> stats =
      stats_of(grad, {{0, 3, 0}, {0, 2, 0}, {1, 1, 1}, {1, 1, 1}}, std::vector<GradStats>(2));
  CHECK(stats[0] == GradStats{inf_bits, 2, 3});
  CHECK(stats[1] == GradStats{inf_bits, 2, 0});
}

TEST_CASE("grad_stats: adds to the existing counts") {
  constexpr std::uint64_t many = std::uint64_t{1} << 33;
  const std::vector<GradStats> before = {{0x3F800000U, many, 5}, {nan_bits, 1, 0}};
  const std::vector<float> grad = {0.25F, 0.0F, inf32};
  CHECK(stats_of(grad, {{0, 2, 0}, {0, 3, 1}}, before) ==
        std::vector<GradStats>{{0x3F800000U, many, 6}, {nan_bits, 2, 1}});
  CHECK(stats_of(grad, {}, before) == before);
}

TEST_CASE("grad_stats: counts of ranks are added as integers") {
  const std::vector<float> grad = {0.0F, 3.0F, inf32, -7.0F, 0.0F};
  const GradStats whole = stats_of(grad);
  const GradStats left = stats_of({grad.begin(), grad.begin() + 2});
  const GradStats right = stats_of({grad.begin() + 2, grad.end()});
  CHECK(whole == GradStats{std::max(left.amax, right.amax),
                           left.num_nonfinite + right.num_nonfinite,
                           left.num_zeros + right.num_zeros});
}

TEST_CASE("grad_stats: invalid segments are rejected and nothing is added") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<float> grad = {inf32, inf32, inf32};
  const GradSegment good{0, 3, 0};
  for (const GradSegment& bad :
       {GradSegment{0, 4, 0}, GradSegment{3, 1, 0}, GradSegment{4, 0, 0}, GradSegment{-1, 2, 0},
        GradSegment{1, -1, 0}, GradSegment{2, most, 0}, GradSegment{most, most, 0},
        GradSegment{0, 1, 2}, GradSegment{0, 0, 2}, GradSegment{0, 1, -1}}) {
    CAPTURE(bad.begin);
    CAPTURE(bad.numel);
    CAPTURE(bad.tensor);
    std::vector<GradStats> stats(2);
    const std::vector<GradSegment> segments = {good, bad};
    ZP_CHECK_INVALID(reference::grad_stats({}, grad, segments, stats));
    CHECK(stats == std::vector<GradStats>(2));
  }
}

}  // namespace grad_stats_test
