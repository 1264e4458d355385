// The oracle against independent requirements: published answers, numbers computed by hand, and
// pairs of independent computations of the same value. No implementation is called here.

#include "oracle.h"

#include <doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

#include "common/base/float_formats.hpp"
#include "common/base/philox.hpp"
#include "oracle_inputs.hpp"
#include "oracle_norm_cases.hpp"

namespace oracle_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

/// Any float: every bit pattern, in a scattered order.
float pattern(std::uint64_t i) { return from_bits(static_cast<std::uint32_t>(i) * 0x9E3779B1U); }

struct KnownAnswer {
  std::array<std::uint32_t, 4> counter;
  std::array<std::uint32_t, 2> key;
  std::array<std::uint32_t, 4> block;
};

}  // namespace

TEST_CASE("philox4x32-10: the vectors published with the generator") {
  const KnownAnswer known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
      {{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF},
       {0xFFFFFFFF, 0xFFFFFFFF},
       {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
      {{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},  // digits of pi
       {0xA4093822, 0x299F31D0},
       {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
  };
  for (const KnownAnswer& k : known) {
    std::array<std::uint32_t, 4> block{};
    oracle_philox(k.counter.data(), k.key.data(), block.data());
    CHECK(block == k.block);
  }
  for (std::uint64_t i = 0; i < 1000;
       ++i) {  // and the addressing of R15 is that of the project's generator
    const std::uint64_t seed = i * 0x9E3779B97F4A7C15ULL, t = i << 24,
                        index = i * i * 0x100000003ULL;
    CHECK(oracle_random_word(seed, 0x53520001, t, index) ==
          Philox(seed, 0x53520001, static_cast<std::uint32_t>(t)).word(index));
  }
}

TEST_CASE("8-bit formats: values of the published tables, and narrowing undoes widening") {
  const auto e4m3_of = [](float x) {
    std::uint8_t code = 0;
    oracle_cast_e4m3(&x, &code, 1);
    return static_cast<int>(code);
  };
  const auto e5m2_of = [](float x) {
    std::uint8_t code = 0;
    oracle_cast_e5m2(&x, &code, 1);
    return static_cast<int>(code);
  };
  constexpr float inf = std::numeric_limits<float>::infinity();
  // Largest, smallest normal, largest and smallest subnormal of "FP8 formats for deep learning", table 1.
  CHECK(e4m3_of(448) == 0x7E);
  CHECK(e4m3_of(0x1p-6F) == 0x08);
  CHECK(e4m3_of(0.875F * 0x1p-6F) == 0x07);
  CHECK(e4m3_of(0x1p-9F) == 0x01);
  CHECK(e5m2_of(57344) == 0x7B);
  CHECK(e5m2_of(0x1p-14F) == 0x04);
  CHECK(e5m2_of(0.75F * 0x1p-14F) == 0x03);
  CHECK(e5m2_of(0x1p-16F) == 0x01);
  // Saturation, ties, and underflow.
  CHECK(e4m3_of(464) == 0x7E);
  CHECK(e4m3_of(-1e30F) == 0xFE);
  CHECK(e4m3_of(inf) == 0x7E);
  CHECK(e5m2_of(-inf) == 0xFB);
  CHECK(e5m2_of(65536) == 0x7B);
  CHECK(e4m3_of(0x1p-10F) == 0x00);   // half of the smallest: to even
  CHECK(e4m3_of(-0x1p-10F) == 0x80);  // keeps its sign
  CHECK(e4m3_of(0x1.000002p-10F) == 0x01);
  CHECK(e4m3_of(0x3p-10F) == 0x02);
  CHECK(e4m3_of(1.0625F) == 0x38);  // between 1 and 1.125
  CHECK(e4m3_of(1.1875F) == 0x3A);
  CHECK(e5m2_of(1.125F) == 0x3C);
  CHECK(e5m2_of(1.375F) == 0x3E);
  for (int code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    float four = 0, five = 0;
    oracle_widen_e4m3(&c, &four, 1);
    oracle_widen_e5m2(&c, &five, 1);
    CHECK((four != four) == ((code & 0x7F) == 0x7F));
    CHECK((five != five) == ((code & 0x7F) > 0x7C));
    if (four == four) CHECK(bits_of(four) == bits_of(to_float(e4m3{c})));
    if (five == five) CHECK(bits_of(five) == bits_of(to_float(e5m2{c})));
    if (four == four) CHECK(e4m3_of(four) == code);
    if (five == five && std::abs(five) < inf) CHECK(e5m2_of(five) == code);
  }
}

TEST_CASE("8-bit formats: overflow by nonfinite, and exponents of scales") {
  const float x[] = {464, 465, -std::numeric_limits<float>::infinity(), 448};
  const float y[] = {61439, 61440, -std::numeric_limits<float>::infinity(), 57344};
  const float z[] = {1, 1.5F, 0x1p-127F, 0x1.8p-127F};
  using Codes = std::array<std::uint8_t, 4>;
  Codes code{};
  oracle_cast_e4m3_nonfinite(x, code.data(), 4);
  CHECK(code == Codes{0x7E, 0x7F, 0xFF, 0x7E});
  oracle_cast_e5m2_nonfinite(y, code.data(), 4);
  CHECK(code == Codes{0x7B, 0x7C, 0xFC, 0x7B});
  oracle_cast_e8m0(z, code.data(), 4);
  CHECK(code == Codes{127, 128, 0, 1});
  for (int c = 0; c < 255; ++c) {  // every code round-trips
    const auto given = static_cast<std::uint8_t>(c);
    float wide = 0;
    oracle_widen_e8m0(&given, &wide, 1);
    oracle_cast_e8m0(&wide, code.data(), 1);
    CHECK(code[0] == given);
  }
}

TEST_CASE("stochastic rounding: one of two neighbours, the word is a threshold") {
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const float x = pattern(i);
    if (x != x) {
      CHECK((oracle_round_with(x, 0xFFFFFFFF) & 0x7FFF) > 0x7F80);
      continue;
    }
    const std::uint32_t low = bits_of(x) & 0xFFFF;
    const auto down = static_cast<std::uint16_t>(bits_of(x) >> 16);
    CHECK(oracle_round_with(x, 0x0000FFFF) == down);  // the lower half of the word has no effect
    if (low == 0) {
      CHECK(oracle_round_with(x, 0xFFFFFFFF) == down);
      continue;
    }
    const std::uint32_t first_up = (0x10000 - low) << 16;
    CHECK(oracle_round_with(x, first_up - 1) == down);
    CHECK(oracle_round_with(x, first_up) == down + 1);
    CHECK(oracle_round_with(x, 0xFFFFFFFF) == down + 1);
  }
}

TEST_CASE("sums: bytes and digits agree, chunks of one element are exact squares") {
  for (const DataFamily& family : data_families) {
    oracle_exact squares;
    oracle_sum digits;
    oracle_exact_clear(&squares);
    oracle_norm_clear(&digits);
    std::uint64_t a[oracle_limbs], b[oracle_limbs];
    for (std::uint64_t i = 0; i < 4000; ++i) {
      const float x = family.value(i * 37);
      oracle_exact_add_squares(&squares, &x, 1);
      oracle_norm_add(&digits, &x, 1);
    }
    oracle_exact_limbs(&squares, a);
    oracle_norm_limbs(&digits, b);
    CHECK_MESSAGE(std::equal(a, a + oracle_limbs, b), family.name);
    CHECK(squares.nan_count == digits.nan_count);
    CHECK(squares.inf_count == digits.inf_count);
    const double root = oracle_exact_norm(&squares), other = oracle_norm_finish(&digits);
    CHECK((bits_of(root) == bits_of(other) || (root != root && other != other)));
  }
}

TEST_CASE("sums: finishing any limbs, through bytes and through digits") {
  std::int64_t differ = 0;
  for (std::uint64_t index = 0; index < 40000; ++index) {
    const NormLimbs limbs = random_limbs(index);
    oracle_sum digits;
    oracle_norm_clear(&digits);
    oracle_norm_add_limbs(&digits, limbs.limbs.data());
    std::uint64_t normal[oracle_limbs];
    oracle_norm_limbs(&digits, normal);
    oracle_exact sum;
    oracle_exact_clear(&sum);
    for (int i = 0; i < 4 * oracle_limbs + 4; ++i)
      sum.byte[i] = static_cast<unsigned char>(normal[std::min(i / 4, oracle_limbs - 1)] >>
                                               8 * (i - 4 * std::min(i / 4, oracle_limbs - 1)));
    differ += bits_of(oracle_exact_value(&sum)) != bits_of(oracle_norm_value(&digits));
    differ += bits_of(oracle_exact_norm(&sum)) != bits_of(oracle_norm_finish(&digits));
  }
  CHECK(differ == 0);
}

TEST_CASE("norms by hand") {
  const float x[] = {3, -4, 0x1p-149F, -0.0F};
  oracle_exact sum;
  oracle_exact_clear(&sum);
  oracle_exact_add_squares(&sum, x, 4);
  std::uint64_t limbs[oracle_limbs];
  oracle_exact_limbs(&sum, limbs);
  CHECK(limbs[11] == 25);                     // weight 2^0
  CHECK(limbs[1] == std::uint64_t{1} << 22);  // 2^-298 = 2^22 * 2^-320
  CHECK(oracle_exact_norm(&sum) == 5);
  oracle_exact_clear(&sum);
  oracle_exact_add_magnitudes(&sum, x, 4);
  CHECK(oracle_exact_value(&sum) == 7);
  CHECK(oracle_max_finish(oracle_max_bits(x, 4, 0)) == 4);
  CHECK(oracle_count_zeros(x, 4) == 1);
  CHECK(oracle_count_nonfinite(x, 4) == 0);
  const float y[] = {std::numeric_limits<float>::infinity(), 1,
                     std::numeric_limits<float>::quiet_NaN(),
                     -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()};
  CHECK(oracle_count_zeros(y, 5) == 0);
  CHECK(oracle_count_nonfinite(y, 5) == 3);
}

TEST_CASE("update rules by hand: powers of two and small integers, every flag tested") {
  oracle_scalars s{};
  s.beta1 = s.beta2 = s.one_minus_beta1 = s.one_minus_beta2 = 0.5F;
  s.sqrt_bias_correction2 = 2, s.step_size = 8, s.eps = 1, s.lr_weight_decay = 0.25F,
  s.weight_decay = 0.5F;
  s.lr = 0.25F, s.momentum = 0.5F, s.one_minus_dampening = 0.75F, s.has_decay = 1;
  const auto adam = [&](oracle_adam_options o, float g, float p, float m, float v, float top) {
    oracle_adam(&o, &s, &g, &p, &m, &v, &top, 1);
    return std::array<float, 4>{p, m, v, top};
  };
  using Four = std::array<float, 4>;
  // adamw: m = 1 + 2, v = 2 + 8 - 6 ... with v0 = 20: 10 + 8 = 18 is no square; v0 = 56: 28 + 8 = 36, root 6.
  CHECK(adam({1, 0, 0}, 4, 16, 2, 56, 5) == Four{16 - (8 * 3.0F / 4 + 4), 3, 36, 5});
  CHECK(adam({1, 0, 1}, 4, 16, 2, 56, 5) == Four{16 - (8 * -1.0F / 4 + 4), -1, 36, 5});
  CHECK(adam({1, 1, 0}, 4, 16, 2, 56, 196) == Four{16 - (8 * 3.0F / 8 + 4), 3, 36, 196});
  CHECK(adam({1, 1, 0}, 4, 16, 2, 56, 30) == Four{16 - (8 * 3.0F / 4 + 4), 3, 36, 36});
  // adam: g = -4 + 0.5 * 16 = 4 after decay, and no decay at the end.
  CHECK(adam({0, 0, 0}, -4, 16, 2, 56, 5) == Four{16 - 8 * 3.0F / 4, 3, 36, 5});
  CHECK(adam({0, 0, 1}, 4, 16, 2, 56, 5) == Four{16 - 8 * 3.0F / 4, 3, 36, 5});
  const auto sgd = [&](oracle_sgd_options o, float g, float p, float b) {
    oracle_sgd(&o, &s, &g, &p, &b, 1);
    return std::array<float, 2>{p, b};
  };
  using Two = std::array<float, 2>;
  CHECK(sgd({0, 0, 0}, 4, 8, 99) == Two{8 - 0.25F * 8, 99});      // g = 4 + 4
  CHECK(sgd({1, 0, 0}, 4, 8, 4) == Two{8 - 0.25F * 8, 8});        // 2 + 6
  CHECK(sgd({1, 1, 0}, 4, 8, 4) == Two{8 - 0.25F * (8 + 4), 8});  // e = g + 8 / 2
  CHECK(sgd({1, 0, 1}, 4, 8, 4) == Two{8 - 0.25F * 2, 2});        // g = -4 + 4 = 0
  s.is_first = 1;
  CHECK(sgd({1, 1, 0}, 4, 8, from_bits(0x7FC00000)) == Two{8 - 0.25F * (8 + 4), 8});  // not read
  float g = 4, p = 8, m = 2;
  oracle_sgd_ema(0, &s, &g, &p, &m, 1);
  CHECK(m == 5);
  CHECK(p == 8 - 0.25F * 5);
  // lion: c = 1 - 3, so up by lr; decay 8/4 down. With beta2 = 1/4 for the old, m = 1/2 - 9/2.
  g = -6, p = 8, m = 2;
  s.beta2 = 0.25F, s.one_minus_beta2 = 0.75F;
  oracle_lion(0, &s, &g, &p, &m, 1);
  CHECK(m == -4);
  CHECK(p == 8 + 0.25F - 2);
  p = 8, m = 2;
  oracle_lion(1, &s, &g, &p, &m, 1);
  CHECK(m == 5);
  CHECK(p == 8 - 0.25F - 2);
  // lamb, with the betas of adamw: its update 8 * 3 / 4 + 4 = 10, times the ratio.
  s.beta2 = 0.5F, s.one_minus_beta2 = 0.5F;
  g = 4, p = 16, m = 2;
  float v = 56, u = 0;
  oracle_lamb(0, &s, 0.5F, &g, &p, &m, &v, &u, 1);
  CHECK(std::array<float, 4>{p, m, v, u} == Four{16 - 5, 3, 36, 10});
  CHECK(oracle_trust_ratio(0.25F, 8, 4) == 0.5F);
  CHECK(oracle_trust_ratio(0.25F, 0, 4) == 1);
  CHECK(oracle_trust_ratio(0.25F, 8, 0) == 1);
}

}  // namespace oracle_test
