#pragma once
// Expected results of both implementations of formats, split masters and scale recipes: numbers
// that can be computed by hand.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "common/contracts/cast.hpp"
#include "common/contracts/master_split.hpp"
#include "common/contracts/scale_recipe.hpp"
#include "tests/cuda/expect_error.hpp"

namespace zeroproof::tests {

inline float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t to_bits(float value) { return std::bit_cast<std::uint32_t>(value); }

template <class Format>
void check_codes(void (*implementation)(const Exec&, Span<const float>, Span<Format>),
                 const Exec& exec, const std::vector<float>& source,
                 const std::vector<int>& codes) {
  for (const std::size_t copies : {1U, 67U}) {  // in tails and in vectors
    for (std::size_t i = 0; i < source.size(); ++i) {
      const std::vector<float> values(copies, source[i]);
      std::vector<Format> target(copies, Format{0x55});
      implementation(exec, values, target);
      CAPTURE(source[i]);
      for (const Format got : target) CHECK(int{got.bits} == codes[i]);
    }
  }
}

inline void check_nonfinite_by_hand(NonfiniteCastToE4m3Fn* to_e4m3, NonfiniteCastToE5m2Fn* to_e5m2,
                                    const Exec& exec) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float most = std::numeric_limits<float>::max();
  check_codes<e4m3>(to_e4m3, exec, {448.0F, -464.0F, 1.0F, -0.0F, 0x1p-9F, 0x1p-10F, 0x1.8p-9F},
                    {0x7E, 0xFE, 0x38, 0x80, 0x01, 0x00, 0x02});
  check_codes<e5m2>(to_e5m2, exec,
                    {57344.0F, std::nextafter(61440.0F, 0.0F), 61440.0F, -61440.0F, most, -most,
                     inf, -inf, -0.0F, 0x1p-17F},
                    {0x7B, 0x7B, 0x7C, 0xFC, 0x7C, 0xFC, 0x7C, 0xFC, 0x80, 0x00});
  std::vector<float> nans = {std::nextafter(464.0F, inf), 480.0F, -512.0F, most, inf, -inf};
  std::vector<e4m3> four(nans.size());
  to_e4m3(exec, nans, four);
  for (const e4m3 got : four) CHECK((got.bits & 0x7F) == 0x7F);
  nans = {of_bits(0x7F800001), of_bits(0xFFC00000), of_bits(0x7FFFFFFF)};
  four.resize(3);
  std::vector<e5m2> five(3);
  to_e4m3(exec, nans, four);
  to_e5m2(exec, nans, five);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK((four[i].bits & 0x7F) == 0x7F);
    CHECK((five[i].bits & 0x7F) > 0x7C);
  }
}

/// Every power of two of fp32, its neighbours, and all codes back.
inline void check_e8m0(CastToE8m0Fn* narrow, WidenE8m0Fn* widen, const Exec& exec) {
  check_codes<e8m0>(
      narrow, exec,
      {0.0F, -0.0F, 0x1p-149F, 0x1p-127F, of_bits(0x00400001), -0x1p-126F, 1.0F, -1.5F, 0x1p127F,
       of_bits(0x7F000001), of_bits(0x7F800000), of_bits(0x7F800001), of_bits(0xFFC00000)},
      {0, 0, 0, 0, 1, 1, 127, 128, 254, 254, 254, 255, 255});
  std::vector<e8m0> codes;
  std::vector<float> values, above, below, wide(256);
  for (int c = 0; c < 256; ++c) codes.push_back({static_cast<std::uint8_t>(c)});
  widen(exec, codes, wide);
  for (int c = 0; c < 255; ++c) {
    CHECK(wide[c] == std::ldexp(1.0F, c - 127));
    values.push_back(c % 2 == 0 ? std::ldexp(1.0F, c - 127) : -std::ldexp(1.0F, c - 127));
    above.push_back(std::nextafter(std::ldexp(1.0F, c - 127), HUGE_VALF));
    below.push_back(std::nextafter(std::ldexp(1.0F, c - 127), 0.0F));
  }
  CHECK(std::isnan(wide[255]));
  std::vector<e8m0> at(255), over(255), under(255);
  narrow(exec, values, at);
  narrow(exec, above, over);
  narrow(exec, below, under);
  for (int c = 0; c < 255; ++c) {
    const auto i = static_cast<std::size_t>(c);
    CHECK(int{at[i].bits} == c);
    CHECK(int{over[i].bits} == (c == 254 ? 254 : c + 1));
    CHECK(int{under[i].bits} == c);
  }
}

inline void check_split(SplitMasterFn* split, JoinMasterFn* join, const Exec& exec) {
  struct Row {
    std::uint32_t master;
    int param, remainder, te_param, te_remainder;
  };
  const Row rows[] = {
      {0x00000000, 0x0000, 0x0000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x0000, 0x8000, 0x0000},
      {0x3F807FFF, 0x3F80, 0x7FFF, 0x3F80, 0x7FFF}, {0x3F808000, 0x3F81, 0x8000, 0x3F81, 0x8000},
      {0xBF818000, 0xBF82, 0x8000, 0xBF82, 0x8000}, {0x00000001, 0x0000, 0x0001, 0x0000, 0x0001},
      {0x80008000, 0x8001, 0x8000, 0x8001, 0x8000}, {0x7F7F8000, 0x7F80, 0x8000, 0x7F80, 0x8000},
      {0xFF7FFFFF, 0xFF80, 0xFFFF, 0xFF80, 0xFFFF}, {0x7F800000, 0x7F80, 0x0000, 0x7F80, 0x0000},
      {0x7F800001, 0x7FFF, 0x0000, 0x7F80, 0x0001}, {0xFF808000, 0x7FFF, 0x0000, 0xFF81, 0x8000},
      {0x7FFF8000, 0x7FFF, 0x0000, 0x8000, 0x8000}, {0xFFFFFFFF, 0x7FFF, 0x0000, 0x0000, 0xFFFF}};
  std::vector<float> master;
  for (int round = 0; round < 5; ++round) {
    for (const Row& row : rows) master.push_back(of_bits(row.master));
  }
  std::vector<bf16> param(master.size());
  std::vector<std::uint16_t> remainder(master.size());
  std::vector<float> joined(master.size());
  for (const SplitRule rule : {SplitRule::nearest, SplitRule::transformer_engine}) {
    const bool nearest = rule == SplitRule::nearest;
    split(exec, rule, master, param, remainder);
    join(exec, rule, param, remainder, joined);
    for (std::size_t i = 0; i < master.size(); ++i) {
      const Row& row = rows[i % std::size(rows)];
      CAPTURE(row.master);
      CHECK(int{param[i].bits} == (nearest ? row.param : row.te_param));
      CHECK(int{remainder[i]} == (nearest ? row.remainder : row.te_remainder));
      if (nearest && std::isnan(master[i])) {
        CHECK(std::isnan(joined[i]));
      } else {
        CHECK(to_bits(joined[i]) == row.master);
      }
    }
  }
  // Pairs that no split makes, and every pair of a NaN.
  const std::vector<bf16> odd = {{0x0000}, {0x7F81}, {0xFFC0}, {0x3F80}};
  const std::vector<std::uint16_t> with = {0x8000, 0x8000, 0x1234, 0xFFFF};
  std::vector<float> made(4);
  join(exec, SplitRule::transformer_engine, odd, with, made);
  CHECK(to_bits(made[0]) == 0xFFFF8000U);
  CHECK(to_bits(made[1]) == 0x7F808000U);
  CHECK(to_bits(made[2]) == 0xFFC01234U);
  CHECK(to_bits(made[3]) == 0x3F7FFFFFU);
  join(exec, SplitRule::nearest, odd, with, made);
  CHECK(to_bits(made[0]) == 0xFFFF8000U);
  CHECK(std::isnan(made[1]));
  CHECK(std::isnan(made[2]));
  CHECK(to_bits(made[3]) == 0x3F7FFFFFU);
  const std::vector<float> three(3);
  expect_error(ErrorCode::invalid_argument,
               [&] { split(exec, SplitRule::nearest, three, param, remainder); });
  expect_error(ErrorCode::invalid_argument,
               [&] { join(exec, SplitRule::nearest, odd, remainder, made); });
  split(exec, SplitRule::nearest, {}, {}, {});
  join(exec, SplitRule::nearest, {}, {}, {});
}

inline void check_current(CurrentScalesFn* implementation, const Exec& exec) {
  constexpr float most = std::numeric_limits<float>::max();
  const std::vector<std::uint32_t> amax = {
      0,          to_bits(448.0F), to_bits(3.0F), to_bits(0x1p-149F), 0x7F7FFFFF,
      0x7F800000, 0x7FFFFFFF,      0x80000000,    0xFF800000,         to_bits(0.5F)};
  std::vector<float> scale(amax.size()), inverse(amax.size());
  implementation(exec, {}, amax, scale, inverse);
  const std::vector<float> want = {1, 1, 448.0F / 3.0F, most, 448.0F / most, 1, 1, 1, 1, 896};
  for (std::size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(to_bits(scale[i]) == to_bits(want[i]));
    CHECK(to_bits(inverse[i]) == to_bits(1.0F / want[i]));
  }
  CHECK(to_bits(inverse[3]) == 0x00200000U);  // a subnormal
  implementation(exec, {.format = Fp8::e5m2, .epsilon = 1.0F, .power_of_two = true}, amax, scale,
                 inverse);
  const std::vector<float> twos = {32768, 128, 16384, 32768, 0x1p-113F, 1, 1, 1, 1, 32768};
  CHECK(scale == twos);
  implementation(exec, {.epsilon = -0.0F, .power_of_two = true}, amax, scale, inverse);
  CHECK(scale[3] == 0x1p127F);
  CHECK(scale[0] == 1);
  for (const float bad : {-1.0F, of_bits(0x80000001), HUGE_VALF, std::nanf("")})
    expect_error(ErrorCode::invalid_argument,
                 [&] { implementation(exec, {.epsilon = bad}, amax, scale, inverse); });
  std::vector<float> short_one(3);
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, {}, amax, short_one, inverse); });
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, {}, amax, scale, short_one); });
  implementation(exec, {}, {}, {}, {});
}

inline void check_mxfp8(Mxfp8ScalesFn* implementation, const Exec& exec) {
  const std::vector<std::uint32_t> amax = {0,          to_bits(448.0F),   to_bits(449.0F),
                                           0x7F7FFFFF, 0x7F800000,        0x7FFFFFFF,
                                           0x80000001, to_bits(57344.0F), to_bits(1.0F)};
  std::vector<e8m0> exponent(amax.size());
  std::vector<float> scale(amax.size());
  // 448 times the fp32 next to 1 / 448, which is above it, is exactly 1 after rounding.
  const int e4m3_codes[] = {0, 127, 128, 247, 254, 255, 255, 134, 119};
  const int e5m2_codes[] = {0, 120, 121, 240, 254, 255, 255, 127, 112};
  for (const bool is_e5m2 : {false, true}) {
    implementation(exec, is_e5m2 ? Fp8::e5m2 : Fp8::e4m3, amax, exponent, scale);
    for (std::size_t i = 0; i < amax.size(); ++i) {
      CAPTURE(i);
      const int code = is_e5m2 ? e5m2_codes[i] : e4m3_codes[i];
      CHECK(int{exponent[i].bits} == code);
      if (code == 255) {
        CHECK(std::isnan(scale[i]));
      } else {
        CHECK(to_bits(scale[i]) == to_bits(std::ldexp(1.0F, 127 - code)));
      }
    }
  }
  std::vector<float> short_one(3);
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, Fp8::e4m3, amax, exponent, short_one); });
  expect_error(ErrorCode::invalid_argument,
               [&] { implementation(exec, Fp8::e4m3, {}, exponent, {}); });
  implementation(exec, Fp8::e4m3, {}, {}, {});
}

/// Expected result for one tensor.
inline void check_step(DelayedScalesFn* implementation, const Exec& exec,
                       const DelayedScaling& options, std::vector<std::uint32_t> history,
                       float scale, const std::vector<std::uint32_t>& moved, float want) {
  std::vector<float> scales = {scale}, inverse = {-1.0F};
  implementation(exec, options, history, scales, inverse);
  CHECK(history == moved);
  CHECK(to_bits(scales[0]) == to_bits(want));
  CHECK(to_bits(inverse[0]) == to_bits(1.0F / want));
}

inline void check_delayed(DelayedScalesFn* implementation, const Exec& exec) {
  const std::uint32_t one = to_bits(1.0F), two = to_bits(2.0F), seven = to_bits(7.0F),
                      inf = 0x7F800000;
  DelayedScaling four{.history = 4};
  check_step(implementation, exec, four, {one, two, seven, 0}, 5, {0, seven, 0, one}, 64);
  check_step(implementation, exec, four, {inf, two, seven, 0}, 5, {0, seven, 0, inf}, 5);
  check_step(implementation, exec, four, {one, two, 0xFFFFFFFF, 0}, 5, {0, 0xFFFFFFFF, 0, one}, 5);
  check_step(implementation, exec, four, {0, two, seven, one}, 5, {0, two, seven, one}, 5);
  four.empty = EmptyAmax::roll;
  check_step(implementation, exec, four, {0, two, seven, one}, 5, {0, seven, one, 0}, 64);
  check_step(implementation, exec, four, {0, 0, 0, 0}, 3, {0, 0, 0, 0}, 3);
  four.choice = AmaxChoice::most_recent;
  check_step(implementation, exec, four, {two, one, seven, 0}, 5, {0, seven, 0, two}, 224);
  check_step(implementation, exec, four, {0, one, seven, 0}, 5, {0, seven, 0, 0}, 5);
  check_step(implementation, exec, {.margin = 3, .history = 1}, {seven}, 5, {0}, 8);
  check_step(implementation, exec, {.format = Fp8::e5m2, .margin = 64, .history = 2},
             {0x7F7FFFFF, one}, 5, {0, 0x7F7FFFFF}, 0x1p-126F);
  check_step(implementation, exec, {.margin = 7, .history = 1}, {0x7F7FFFFF}, 5, {0},
             0x1p-126F);  // 1.75 * 2^-127
  check_step(implementation, exec, {.history = 1}, {1}, 5, {0}, std::numeric_limits<float>::max());
  // Many tensors with the longest histories: the largest of each is at another place.
  constexpr std::size_t tensors = 131, slots = 1024;
  std::vector<std::uint32_t> history(tensors * slots);
  for (std::size_t i = 0; i < history.size(); ++i)
    history[i] = to_bits(1.0F + static_cast<float>(i % slots) * 0x1p-10F);
  for (std::size_t t = 0; t < tensors; ++t)
    history[t * slots + t * 977 % slots] = to_bits(static_cast<float>(t + 2));
  const std::vector<std::uint32_t> before = history;
  std::vector<float> scale(tensors, 1.0F), inverse(tensors);
  implementation(exec, {}, history, scale, inverse);
  std::size_t wrong = 0;
  for (std::size_t t = 0; t < tensors; ++t) {
    CHECK(scale[t] == 448.0F / static_cast<float>(t + 2));
    for (std::size_t k = 0; k < slots; ++k) {
      const std::uint32_t want = k == 0 ? 0 : before[t * slots + (k + 1) % slots];
      wrong += history[t * slots + k] == want ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  for (const DelayedScaling& bad :
       {DelayedScaling{.margin = -1, .history = 1}, DelayedScaling{.margin = 65, .history = 1},
        DelayedScaling{.history = 0}, DelayedScaling{.history = 1025},
        DelayedScaling{.history = 1023}}) {
    expect_error(ErrorCode::invalid_argument,
                 [&] { implementation(exec, bad, history, scale, inverse); });
  }
  expect_error(ErrorCode::invalid_argument, [&] { implementation(exec, {}, history, scale, {}); });
  CHECK(history[1] == before[2]);
  implementation(exec, {}, {}, {}, {});
}

}  // namespace zeroproof::tests
