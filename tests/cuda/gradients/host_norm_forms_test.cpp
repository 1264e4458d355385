// The forms exact and one of the host implementation against the reference; all forms over a scaled sum.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/base/philox.hpp"
#include "cuda/host/fused_step.hpp"
#include "cuda/host/operations.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/every_exec.hpp"

namespace host_norm_forms_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
namespace host = zeroproof::cuda::host;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// The limbs by the reference; power is 1 or 2. Normalised.
NormLimbs expected(const std::vector<float>& values, int power) {
  NormLimbs limbs;
  if (power == 2) reference::grad_norm_exact_accumulate({}, values, limbs);
  if (power == 1) reference::grad_abs_accumulate({}, values, limbs);
  reference::grad_norm_normalise(limbs);
  return limbs;
}

NormLimbs normalised(NormLimbs limbs) {
  host::grad_norm_normalise(limbs);
  return limbs;
}

NormLimbs exact(const Exec& exec, const std::vector<float>& values) {
  NormLimbs limbs;
  host::grad_norm_exact_accumulate(exec, values, limbs);
  return normalised(limbs);
}

NormLimbs magnitudes(const Exec& exec, const std::vector<float>& values) {
  NormLimbs limbs;
  host::grad_abs_accumulate(exec, values, limbs);
  return normalised(limbs);
}

/// Values whose exponent fields spread over `spread` binades below `top`, every eighth a zero; mantissas random.
std::vector<float> spread_values(std::size_t numel, int top, int spread, std::uint64_t seed) {
  const Philox philox(seed);
  std::vector<float> values(numel);
  for (std::size_t i = 0; i < numel; ++i) {
    const std::uint32_t word = philox.word(i);
    const auto below =
        static_cast<int>(philox.below(i + (1U << 20), static_cast<std::uint64_t>(spread) + 1));
    const auto exponent = static_cast<std::uint32_t>(std::max(top - below, 0));
    values[i] = std::bit_cast<float>((word & 0x807FFFFFU) | exponent << 23);
    if (i % 8 == 7) values[i] = word % 2 == 0 ? 0.0F : -0.0F;
  }
  return values;
}

}  // namespace

TEST_CASE("exact and one: the integers of the reference, whatever the spread of exponents") {
  // Spreads around every number of levels that the vector sums support, and beyond.
  for (const int spread : {0, 1, 18, 19, 20, 21, 40, 41, 42, 43, 62, 63, 64, 107, 108, 253}) {
    for (const int top : {254, 127, 60, 20, 1, 0}) {
      const std::vector<float> values =
          spread_values(1531, top, spread, static_cast<std::uint64_t>(spread));
      const NormLimbs squares = expected(values, 2);
      const NormLimbs sums = expected(values, 1);
      for (const Exec& exec : every_exec()) {
        CAPTURE(spread);
        CAPTURE(top);
        CHECK(exact(exec, values) == squares);
        CHECK(magnitudes(exec, values) == sums);
      }
    }
  }
}

TEST_CASE(
    "exact and one: whole blocks of the largest mantissas of one binade and of the ends of a "
    "window") {
  for (const int distance : {0, 1, 19, 20, 41, 42, 63, 64}) {
    std::vector<float> values(1024, std::bit_cast<float>(std::uint32_t{200} << 23 | 0x7FFFFFU));
    for (std::size_t i = 0; i < values.size(); i += 2) {
      values[i] =
          std::bit_cast<float>(static_cast<std::uint32_t>(200 - distance) << 23 | 0x7FFFFFU);
    }
    for (const Exec& exec : every_exec()) {
      CAPTURE(distance);
      CHECK(exact(exec, values) == expected(values, 2));
      CHECK(magnitudes(exec, values) == expected(values, 1));
    }
  }
}

TEST_CASE("exact and one: blocks that fill every part of a split to its last bit") {
  // One large value, many of one kind and one small odd value. Mantissas whose squares leave the
  // largest remainders of either sign behind a head (4 mod 8: a tie; 7: just above it; 0x900001:
  // the same with bits far below). A zero follows the small value, and the second block of each
  // kind ends in subnormals.
  const auto value = [](int exponent, std::uint32_t mantissa) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent) << 23 |
                                (mantissa & 0x7FFFFFU));
  };
  const std::vector<Exec> all = every_exec();
  for (const std::uint32_t mantissa : {0x800001U, 0x800004U, 0x800007U, 0x900001U, 0xFFFFFFU}) {
    for (int middle = 0; middle <= 45; ++middle) {
      for (const int below : {0, 1, 18, 19, 20, 21, 22, 40, 41, 42, 43}) {
        for (const int top : {200, 1 + middle + below}) {
          std::vector<float> values(1023, value(top - middle, mantissa));
          values[5] = value(top, mantissa);
          values[700] = value(top == 200 ? top - middle - below : 0, 0xFFFFFFU);
          values[716] = 0.0F;
          const NormLimbs squares = expected(values, 2);
          const NormLimbs sums = expected(values, 1);
          bool same = true;
          for (const Exec& exec : all) {
            same = same && exact(exec, values) == squares && magnitudes(exec, values) == sums;
          }
          CAPTURE(mantissa);
          CAPTURE(middle);
          CAPTURE(below);
          CAPTURE(top);
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("exact and one: any split, added to existing limbs, several blocks and threads") {
  std::vector<float> values = spread_values(3 * 16384 + 77, 130, 30, 9);
  values[20000] = -inf;
  values[40000] = not_a_number;
  for (const Exec& exec : every_exec()) {
    const NormLimbs squares = exact(exec, values);
    CHECK(squares.nan_count == 1);
    CHECK(squares.inf_count == 1);
    for (const std::size_t cut :
         {std::size_t{1}, std::size_t{1023}, std::size_t{16385}, std::size_t{40001}}) {
      const Span<const float> all = values;
      NormLimbs pieces;
      host::grad_norm_exact_accumulate(exec, all.subspan(cut), pieces);
      host::grad_norm_exact_accumulate(exec, all.first(cut), pieces);
      CHECK(normalised(pieces) == squares);
    }
  }
  // Limbs full of carries do not overflow.
  NormLimbs full;
  full.limbs[11] = ~0ULL;
  host::grad_norm_exact_accumulate({}, std::vector<float>(16384, 0x1.fffffep11F), full);
  host::grad_norm_normalise(full);
  NormLimbs want = expected(std::vector<float>(16384, 0x1.fffffep11F), 2);
  want.limbs[11] += 0xFFFFFFFFU;
  want.limbs[12] += 0xFFFFFFFFU;
  host::grad_norm_normalise(want);
  CHECK(full == want);
}

TEST_CASE(
    "the forms over grad_sum * inv_scale: the product is rounded to fp32 first, grad_sum stays") {
  std::vector<float> sums = spread_values(3001, 140, 25, 4);
  const float inv_scale = 1.0F / 3.0F;
  const std::vector<float> before = sums;
  for (const Exec& exec : every_exec()) {
    std::vector<float> grad(sums.size());
    CHECK_FALSE(host::unscale(exec, inv_scale, sums, grad));
    NormLimbs squares, absolutes;
    std::uint32_t amax = 0, want_amax = 0;
    host::fused_norm_exact(exec, inv_scale, sums, squares);
    host::fused_norm_abs(exec, inv_scale, sums, absolutes);
    host::fused_norm_max(exec, inv_scale, sums, amax);
    host::grad_max_accumulate(exec, grad, want_amax);
    CHECK(normalised(squares) == expected(grad, 2));
    CHECK(normalised(absolutes) == expected(grad, 1));
    CHECK(amax == want_amax);
    // A last element that is much smaller than the others only after the product.
    std::vector<float> wide(17, 0x1.2345p60F), scaled(17, 0x1.2345p0F);
    wide[16] = 0x1.fffffep5F;
    scaled[16] = 0x1.fffffep-55F;
    squares = {};
    host::fused_norm_exact(exec, 0x1p-60F, wide, squares);
    CHECK(normalised(squares) == expected(scaled, 2));
    CHECK_FALSE(host::fused_finite(exec, inv_scale, sums));
    CHECK(host::fused_finite(exec, 0x1p126F, sums));  // finite before the product only
    CHECK(host::fused_finite(exec, 1.0F, std::vector<float>{1.0F, not_a_number}));
    CHECK(host::fused_finite(exec, 0.0F, std::vector<float>{1.0F, inf}));
    CHECK_FALSE(host::fused_finite(exec, 1.0F, {}));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      REQUIRE(std::bit_cast<std::uint32_t>(sums[i]) == std::bit_cast<std::uint32_t>(before[i]));
    }
  }
}

}  // namespace host_norm_forms_test
