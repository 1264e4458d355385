// Casts between formats with the errors that kernels get when they are transcribed; right but for what ZP_KERNEL says.

#include <algorithm>
#include <bit>
#include <limits>

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

const bool truncated = chosen("truncated");      // bf16 by cutting the bits off
const bool ties_away = chosen("ties_away");      // bf16 ties away from zero
const bool nan_rounded = chosen("nan_rounded");  // bf16 of a NaN whose digits round up to infinity
const bool subnormals_flushed = chosen("subnormals_flushed");  // fp16 without subnormals
const bool not_saturated = chosen("not_saturated");            // e4m3 of what is too large is NaN
const bool block_index = chosen("block_index");    // random words by the place in the call, not in the tensor
const bool words_shared = chosen("words_shared");  // one random word for two elements
const bool wide_flushed = chosen("wide_flushed");  // fp16 widened without subnormals
const bool other_bias = chosen("other_bias");      // e4m3 widened with the bias of another e4m3

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

std::uint16_t bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  if (std::isnan(x) && !nan_rounded) return 0x7FC0;
  if (truncated) return static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t half = ties_away ? 0x8000U : 0x7FFFU + (bits >> 16 & 1U);
  return static_cast<std::uint16_t>((bits + half) >> 16);
}

std::uint16_t fp16(float x) {
  if (subnormals_flushed && std::fabs(x) < 0x1p-14F)
    return static_cast<std::uint16_t>(bits_of(x) >> 16 & 0x8000U);
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
}

std::uint8_t e4m3(float x) {
  const auto sign = static_cast<std::uint8_t>(bits_of(x) >> 24 & 0x80U);
  const float size = std::fabs(x);
  if (std::isnan(x) || (size >= 464 && not_saturated)) return sign | 0x7FU;
  if (size >= 448) return sign | 0x7EU;
  // The spacing of the numbers around x is 2^(exponent - 3), and 2^-9 below 2^-6.
  const int exponent = size < 0x1p-6F ? -6 : std::ilogb(size);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));
  return static_cast<std::uint8_t>(sign | ((exponent + 6) * 8 + steps));
}

float from_fp16(std::uint16_t bits) {
  if (wide_flushed && (bits & 0x7C00U) == 0)
    return std::bit_cast<float>(std::uint32_t{bits} << 16 & 0x80000000U);
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

float from_e4m3(std::uint8_t bits) {
  if ((bits & 0x7FU) == 0x7FU) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = bits >> 3 & 15, digits = bits & 7, bias = other_bias ? 8 : 7;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(digits), -2 - bias)
                                   : std::ldexp(static_cast<float>(8 + digits), exponent - bias - 3);
  return (bits & 0x80U) != 0 ? -size : size;
}

/// Word `index` of the stream of stochastic rounding (R15): Philox4x32-10, four words to a counter.
std::uint32_t random_word(std::uint64_t seed, std::uint64_t step, std::uint64_t index) {
  const std::uint64_t block = index / 4;
  std::uint32_t c[4] = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                        static_cast<std::uint32_t>(step), 0x53520001U};
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * c[0], b = std::uint64_t{0xCD9E8D57U} * c[2];
    const std::uint32_t next[4] = {
        static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c[index % 4];
}

std::int32_t stochastic(const zeroproof_call* call) {
  const std::uint64_t first = block_index ? 0 : word(call, "first_index");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const float x = data(call, 0)[i];
    const std::uint64_t index = first + static_cast<std::uint64_t>(words_shared ? i / 2 * 2 : i);
    const std::uint32_t random = random_word(word(call, "seed"), word(call, "step"), index) >> 16;
    const std::uint32_t bits = bits_of(x);
    data<std::uint16_t>(call, 1)[i] = std::isnan(x)   ? std::uint16_t{0x7FC0}
                                      : std::isinf(x) ? static_cast<std::uint16_t>(bits >> 16)
                                                      : static_cast<std::uint16_t>((bits + random) >> 16);
  }
  return 0;
}

template <class From, class To, To (*convert)(From)>
std::int32_t cast(const zeroproof_call* call) {
  for (std::int64_t i = 0; i < numel(call); ++i) data<To>(call, 1)[i] = convert(data<From>(call, 0)[i]);
  return 0;
}

constexpr zeroproof_operation table[] = {{"cast_to_bf16", cast<float, std::uint16_t, bf16>},
                                         {"cast_to_fp16", cast<float, std::uint16_t, fp16>},
                                         {"cast_to_e4m3", cast<float, std::uint8_t, e4m3>},
                                         {"widen_fp16", cast<std::uint16_t, float, from_fp16>},
                                         {"widen_e4m3", cast<std::uint8_t, float, from_e4m3>},
                                         {"stochastic_cast_to_bf16", stochastic}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
