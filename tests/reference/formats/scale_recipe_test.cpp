// Scales from largest magnitudes: by hand, and every amax.

#include "common/base/float_formats.hpp"
#include "common/base/parallel_for.hpp"
#include "reference/operations.hpp"
#include "tests/reference/support.hpp"

namespace scale_recipe_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

constexpr std::uint32_t inf_bits = 0x7F800000U;
constexpr std::uint32_t nan_bits = 0x7FFFFFFFU;
constexpr float largest32 = std::numeric_limits<float>::max();

std::uint32_t amax_of(float value) { return std::bit_cast<std::uint32_t>(value); }

struct Scales {
  float scale = 0, scale_inv = 0;
};

Scales current(const CurrentScaling& options, std::uint32_t amax) {
  Scales s;
  reference::current_scales({}, options, {&amax, 1}, {&s.scale, 1}, {&s.scale_inv, 1});
  return s;
}

struct Exponent {
  int code;
  float scale;
};

Exponent mxfp8(Fp8 format, std::uint32_t amax) {
  e8m0 exponent{};
  float scale = 0;
  reference::mxfp8_scales({}, format, {&amax, 1}, {&exponent, 1}, {&scale, 1});
  return {exponent.bits, scale};
}

struct Delayed {
  std::vector<std::uint32_t> history;
  std::vector<float> scale, scale_inv;
};

/// One tensor.
Delayed delayed(const DelayedScaling& options, std::vector<std::uint32_t> history, float scale) {
  Delayed d{std::move(history), {scale}, {0}};
  DelayedScaling of_length = options;
  of_length.history = static_cast<std::int64_t>(d.history.size());
  reference::delayed_scales({}, of_length, d.history, d.scale, d.scale_inv);
  return d;
}

}  // namespace

TEST_CASE("current scales: by hand") {
  CHECK(current({}, amax_of(448)).scale == 1);
  CHECK(current({}, amax_of(7)).scale == 64);
  CHECK(current({}, amax_of(7)).scale_inv == 0x1p-6F);
  CHECK(current({.format = Fp8::e5m2}, amax_of(7)).scale == 8192);
  CHECK(current({}, amax_of(3)).scale == 448.0F / 3.0F);  // 149.33
  CHECK(current({.power_of_two = true}, amax_of(3)).scale ==
        128);  // rounded down, so that 3 * 128 still fits
  CHECK(current({.power_of_two = true}, amax_of(3)).scale_inv == 0x1p-7F);
  // The reciprocal is rounded too: 448 / 3 and its reciprocal are 0x43155555 and 0x3BDB6DB7 (3 /
  // 448 is 0x3BDB6DB7).
  CHECK(bits(current({}, amax_of(3)).scale) == 0x43155555U);
  CHECK(bits(current({}, amax_of(3)).scale_inv) == 0x3BDB6DB7U);
}

TEST_CASE("current scales: amax of 0, infinity, NaN or a small value") {
  for (const bool power_of_two : {false, true}) {
    for (const std::uint32_t amax : {0U, inf_bits, nan_bits, 0x7F800001U, 0xFFFFFFFFU}) {
      const Scales s = current({.power_of_two = power_of_two}, amax);
      CHECK(s.scale == 1);
      CHECK(s.scale_inv == 1);
    }
  }
  // 448 / amax is infinite: the largest finite number, or the power of two in it.
  CHECK(current({}, 1).scale == largest32);
  CHECK(bits(current({}, 1).scale_inv) ==
        0x00200000U);  // 1 / (2^128 (1 - 2^-24)) is 2^-128 (1 + 2^-24), subnormal
  CHECK(current({.power_of_two = true}, 1).scale == 0x1p127F);
  CHECK(current({.power_of_two = true}, 1).scale_inv == 0x1p-127F);
  // epsilon replaces a smaller amax, 0 too, but not a NaN.
  CHECK(current({.epsilon = 0.5F}, amax_of(0.25F)).scale == 896);
  CHECK(current({.epsilon = 0.5F}, 0).scale == 896);
  CHECK(current({.epsilon = 0.5F}, amax_of(0.5F)).scale == 896);
  CHECK(current({.epsilon = 0.5F}, amax_of(1)).scale == 448);
  CHECK(current({.epsilon = 0.5F}, nan_bits).scale == 1);
  CHECK(current({.epsilon = -0.0F}, 0).scale == 1);
}

TEST_CASE("mxfp8 scales: by hand") {
  CHECK(mxfp8(Fp8::e4m3, amax_of(448)).code == 127);
  CHECK(mxfp8(Fp8::e4m3, amax_of(std::nextafter(448.0F, inf32))).code ==
        128);                                       // up: 448.00003 would not fit
  CHECK(mxfp8(Fp8::e4m3, amax_of(1)).code == 119);  // 1 / 448 is between 2^-9 and 2^-8
  CHECK(mxfp8(Fp8::e4m3, amax_of(1)).scale == 256);
  CHECK(mxfp8(Fp8::e5m2, amax_of(57344)).code == 127);
  CHECK(mxfp8(Fp8::e5m2, amax_of(1)).code == 112);
  CHECK(mxfp8(Fp8::e4m3, 0).code == 0);
  CHECK(mxfp8(Fp8::e4m3, 0).scale == 0x1p127F);
  CHECK(mxfp8(Fp8::e4m3, amax_of(largest32)).code == 247);  // 2^128 / 448 is below 2^120
  CHECK(mxfp8(Fp8::e4m3, inf_bits).code == 254);
  CHECK(mxfp8(Fp8::e4m3, inf_bits).scale == 0x1p-127F);
  CHECK(mxfp8(Fp8::e4m3, nan_bits).code == 255);
  CHECK(std::isnan(mxfp8(Fp8::e4m3, nan_bits).scale));
  CHECK(std::isnan(
      mxfp8(Fp8::e4m3, 0x80000000U).scale));  // no amax; every pattern above infinity is a NaN
}

namespace {

/// Exponents of all amax with bits i * step that are not the least one with which amax fits, for
/// normal numbers.
std::int64_t not_the_least(Fp8 format, std::int64_t step) {
  const double top = largest_of(format);
  constexpr std::int64_t block = 1 << 14;
  const std::int64_t count = std::int64_t{inf_bits} / step;
  std::vector<std::int64_t> wrong((count + block - 1) / block);
  parallel_for(2, std::ssize(wrong), [&](std::int64_t b) {
    const auto numel = static_cast<std::size_t>(std::min(block, count - b * block));
    std::vector<std::uint32_t> amax(numel);
    std::vector<e8m0> exponent(numel);
    std::vector<float> scale(numel);
    for (std::size_t i = 0; i < numel; ++i) {
      amax[i] = static_cast<std::uint32_t>((b * block + static_cast<std::int64_t>(i)) * step);
    }
    reference::mxfp8_scales({}, format, amax, exponent, scale);
    for (std::size_t i = 0; i < numel; ++i) {
      const double a = std::bit_cast<float>(amax[i]);
      const int code = exponent[i].bits;
      const bool fits = a <= top * std::ldexp(1.0, code - 127);
      const bool least = code == 0 || a > top * std::ldexp(1.0, code - 128);
      const bool inverse = double{scale[i]} == std::ldexp(1.0, 127 - code);
      const bool small =
          a < top * 0x1p-126;  // the product is subnormal, and its rounding may be down
      wrong[b] += inverse && (small ? code <= 1 : fits && least) ? 0 : 1;
    }
  });
  std::int64_t all = 0;
  for (const std::int64_t of_block : wrong) all += of_block;
  return all;
}

}  // namespace

TEST_CASE("mxfp8 scales: the least exponent with which amax fits, for every 101st amax") {
  for (const Fp8 format : {Fp8::e4m3, Fp8::e5m2}) CHECK(not_the_least(format, 101) == 0);
}

TEST_CASE("nightly: mxfp8 scales: the least exponent with which amax fits, for every amax") {
  for (const Fp8 format : {Fp8::e4m3, Fp8::e5m2}) CHECK(not_the_least(format, 1) == 0);
}

TEST_CASE("delayed scales: the window moves, and the newest and the oldest count") {
  const std::uint32_t one = amax_of(1), two = amax_of(2), four = amax_of(4), seven = amax_of(7);
  // 7 is collected; 4 is the oldest, and leaves the window after it has counted for the last time.
  const Delayed d = delayed({}, {two, four, one, one}, 5);
  CHECK(d.history == std::vector<std::uint32_t>{0, one, one, two});
  CHECK(d.scale[0] == 112);
  CHECK(d.scale_inv[0] == 1.0F / 112.0F);
  CHECK(delayed({}, {seven, four, one, one}, 5).scale[0] == 64);
  CHECK(delayed({.choice = AmaxChoice::most_recent}, {two, four, one, one}, 5).scale[0] == 224);
  CHECK(delayed({.format = Fp8::e5m2}, {seven, 0}, 5).scale[0] == 8192);
  CHECK(delayed({.margin = 3}, {seven, 0}, 5).scale[0] == 8);
  CHECK(delayed({}, {seven}, 5).history ==
        std::vector<std::uint32_t>{0});  // a window of the current step only
  CHECK(delayed({}, {seven}, 5).scale[0] == 64);
  CHECK(delayed({}, {seven, one}, 5).history == std::vector<std::uint32_t>{0, seven});
}

TEST_CASE("delayed scales: a tensor without a gradient keeps its scale") {
  const std::uint32_t one = amax_of(1), two = amax_of(2);
  const std::vector<std::uint32_t> before = {0, two, one};
  const Delayed kept = delayed({.empty = EmptyAmax::keep}, before, 5);
  CHECK(kept.history == before);
  CHECK(kept.scale[0] == 5);
  CHECK(kept.scale_inv[0] == 0.2F);
  const Delayed rolled = delayed({.empty = EmptyAmax::roll}, before, 5);
  CHECK(rolled.history == std::vector<std::uint32_t>{0, one, 0});
  CHECK(rolled.scale[0] == 224);
  // most_recent has no amax to compute a scale from, and neither has an empty window.
  CHECK(
      delayed({.choice = AmaxChoice::most_recent, .empty = EmptyAmax::roll}, before, 5).scale[0] ==
      5);
  CHECK(delayed({.empty = EmptyAmax::roll}, {0, 0, 0}, 5).scale[0] == 5);
}

TEST_CASE(
    "delayed scales: infinite and NaN amaxes keep the scale as long as they are in the window") {
  const std::uint32_t one = amax_of(1), seven = amax_of(7);
  for (const std::uint32_t bad : {inf_bits, nan_bits}) {
    const Delayed d = delayed({}, {one, seven, bad}, 5);
    CHECK(d.scale[0] == 5);
    CHECK(d.scale_inv[0] == 0.2F);
    CHECK(d.history == std::vector<std::uint32_t>{0, bad, one});
    CHECK(delayed({.choice = AmaxChoice::most_recent}, {one, seven, bad}, 5).scale[0] == 448);
    CHECK(delayed({.choice = AmaxChoice::most_recent}, {bad, seven, one}, 5).scale[0] == 5);
  }
}

TEST_CASE("delayed scales: quotients that are too large or too small") {
  CHECK(delayed({}, {1, 0}, 5).scale[0] == largest32);
  const Delayed d = delayed({.margin = 64}, {amax_of(largest32), 0}, 5);
  CHECK(d.scale[0] == 0x1p-126F);
  CHECK(d.scale_inv[0] == 0x1p126F);
  CHECK(delayed({.margin = 6}, {amax_of(largest32), 0}, 5).scale[0] == 448.0F / 64.0F / largest32);
}

TEST_CASE("delayed scales: tensors are independent over several steps") {
  const DelayedScaling options{.history = 3};
  std::vector<std::uint32_t> history(9);
  std::vector<float> scale(3, 1), scale_inv(3, 1);
  const std::vector<std::vector<float>> amaxes = {
      {7, 0, 1}, {3.5F, 0, 2}, {1.75F, 14, 0}, {1.75F, 0, 0}};
  const std::vector<std::vector<float>> want = {
      {64, 1, 448}, {64, 1, 224}, {64, 32, 224}, {128, 32, 224}};
  for (std::size_t step = 0; step < amaxes.size(); ++step) {
    for (std::size_t tensor = 0; tensor < 3; ++tensor) {
      history[3 * tensor] = std::max(history[3 * tensor], amax_of(amaxes[step][tensor]));
    }
    reference::delayed_scales({}, options, history, scale, scale_inv);
    CHECK(scale == want[step]);
  }
  const std::uint32_t last = amax_of(1.75F);
  CHECK(history ==
        std::vector<std::uint32_t>{0, last, last, 0, 0, amax_of(14), 0, amax_of(1), amax_of(2)});
}

TEST_CASE("scale recipes: invalid arguments are rejected") {
  std::vector<std::uint32_t> two(2), six(6);
  std::vector<float> a(2), b(2), three(3);
  std::vector<e8m0> exponents(3);
  ZP_CHECK_INVALID(reference::current_scales({}, {}, two, a, three));
  ZP_CHECK_INVALID(reference::current_scales({}, {}, two, three, a));
  for (const float epsilon : {-1.0F, inf32, nan32}) {
    ZP_CHECK_INVALID(reference::current_scales({}, {.epsilon = epsilon}, two, a, b));
  }
  ZP_CHECK_INVALID(reference::mxfp8_scales({}, Fp8::e4m3, two, exponents, a));
  ZP_CHECK_INVALID(
      reference::mxfp8_scales({}, Fp8::e4m3, two, Span<e8m0>(exponents).first(2), three));
  for (const int margin : {-1, 65}) {
    ZP_CHECK_INVALID(reference::delayed_scales({}, {.margin = margin, .history = 3}, six, a, b));
  }
  for (const std::int64_t history : {0, -3, 1025, 2}) {
    ZP_CHECK_INVALID(reference::delayed_scales({}, {.history = history}, six, a, b));
  }
  ZP_CHECK_INVALID(reference::delayed_scales({}, {.history = 3}, six, a, three));
  reference::delayed_scales({}, {.history = 3}, six, a, b);
  reference::current_scales({}, {}, {}, {}, {});
}

}  // namespace scale_recipe_test
