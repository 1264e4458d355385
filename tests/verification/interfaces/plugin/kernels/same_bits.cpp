// Kernels with the contract's bits from other loops, types and formulas: ZP_KERNEL selects one, in
// every operation.

#include <algorithm>
#include <bit>
#include <thread>
#include <vector>

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

const bool downwards = chosen("downwards");  // from the last element to the first
const bool strided = chosen("strided");      // every seventh element, seven times
const bool blocks = chosen("blocks");        // blocks of 61, the blocks in another order
const bool threads = chosen("threads");  // pieces of uneven length on as many threads as permitted
const bool searched =
    chosen("searched");  // narrow formats by searching their values, products in fp64

template <class Body>
void each(const zeroproof_call* call, const Body& body) {
  const std::int64_t all = numel(call);
  if (downwards) {
    for (std::int64_t i = all - 1; i >= 0; --i) body(i);
  } else if (strided) {
    for (std::int64_t first = 0; first < 7; ++first) {
      for (std::int64_t i = first; i < all; i += 7) body(i);
    }
  } else if (blocks) {
    for (const std::int64_t odd : {1, 0}) {
      for (std::int64_t begin = odd * 61; begin < all; begin += 122) {
        for (std::int64_t i = begin; i < std::min<std::int64_t>(begin + 61, all); ++i) body(i);
      }
    }
  } else if (threads && call->num_threads > 1) {
    const std::int64_t cut = all * 2 / 5;
    std::thread other([&] {
      for (std::int64_t i = 0; i < cut; ++i) body(i);
    });
    for (std::int64_t i = cut; i < all; ++i) body(i);
    other.join();
  } else {
    for (std::int64_t i = 0; i < all; ++i) body(i);
  }
}

/// The product of two fp32 numbers is exact in fp64, so that only one rounding remains.
float product(float a, float b) {
  return searched ? static_cast<float>(double{a} * double{b}) : a * b;
}

std::int32_t unscale(const zeroproof_call* call) {
  const float factor = real(call, "inv_scale");
  std::vector<char> found(static_cast<std::size_t>(numel(call)) + 1);
  each(call, [&](std::int64_t i) {
    data(call, 1)[i] = product(data(call, 0)[i], factor);
    found[i] = !(std::fabs(data(call, 1)[i]) <= 0x1.fffffep127F);
  });
  data<std::uint32_t>(call, 2)[0] =
      static_cast<std::uint32_t>(*std::max_element(found.begin(), found.end()));
  return 0;
}

std::int32_t clip(const zeroproof_call* call) {
  const float coef = real(call, "clip_coef");
  each(call, [&](std::int64_t i) { data(call, 1)[i] = product(data(call, 0)[i], coef); });
  return 0;
}

std::int32_t clip_value(const zeroproof_call* call) {
  const float limit = real(call, "clip_value");
  each(call, [&](std::int64_t i) {
    float& g = data(call, 0)[i];
    if (std::fabs(g) > limit) g = std::copysign(limit, g);
  });
  return 0;
}

/// Of the finite numbers of a format, in order of their codes, the nearest to a magnitude; of two
/// the one with the even code. `above`: the next number after the largest.
template <class Value>
std::uint32_t nearest(float size, std::uint32_t codes, double above, const Value& value) {
  std::uint32_t low = 0, high = codes;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value(middle) <= double{size} ? low : high) = middle;
  }
  const double next = low + 1 == codes ? above : value(low + 1), down = size - value(low),
               up = next - size;
  return down < up || (down == up && low % 2 == 0) ? low : low + 1;
}

double value_of(std::uint32_t code, int digits, int bias) {
  const auto exponent = static_cast<int>(code >> digits);
  const std::uint32_t rest = code & ((1U << digits) - 1U), one = 1U << digits;
  return exponent == 0 ? std::ldexp(rest, 1 - bias - digits)
                       : std::ldexp(one + rest, exponent - bias - digits);
}

std::uint32_t sign_bit(float x) { return std::signbit(x) ? 1 : 0; }

std::uint16_t to_bf16(float x) {
  if (std::isnan(x)) return 0x7FC0;
  if (std::isinf(x)) return static_cast<std::uint16_t>(sign_bit(x) << 15 | 0x7F80U);
  if (searched) {
    const auto value = [](std::uint32_t code) { return value_of(code, 7, 127); };
    return static_cast<std::uint16_t>(sign_bit(x) << 15 |
                                      nearest(std::fabs(x), 0x7F80U, 0x1p128, value));
  }
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t cut = bits & 0xFFFFU, kept = bits >> 16;
  return static_cast<std::uint16_t>(kept +
                                    (cut > 0x8000U || (cut == 0x8000U && kept % 2 == 1) ? 1 : 0));
}

std::uint16_t to_fp16(float x) {
  if (!searched) return std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
  if (std::isnan(x)) return 0x7E00;
  const auto value = [](std::uint32_t code) { return value_of(code, 10, 15); };
  const std::uint32_t code =
      std::isinf(x) ? 0x7C00U : std::min(0x7C00U, nearest(std::fabs(x), 0x7C00U, 0x1p16, value));
  return static_cast<std::uint16_t>(sign_bit(x) << 15 | code);
}

/// Formats of 8 bits: larger values become the largest finite number.
template <int digits, int bias, std::uint32_t codes>
std::uint8_t to_small(float x) {
  if (std::isnan(x)) return 0x7F;
  const auto value = [](std::uint32_t code) { return value_of(code, digits, bias); };
  const double largest = value(codes - 1);
  const std::uint32_t code =
      double{std::fabs(x)} >= largest ? codes - 1 : nearest(std::fabs(x), codes, largest, value);
  return static_cast<std::uint8_t>(sign_bit(x) << 7 | code);
}

/// has_infinity: the code after the last finite number is infinity, not NaN.
template <int digits, int bias, std::uint32_t codes, bool has_infinity, class Bits>
float widened(Bits bits) {
  constexpr std::uint32_t sign = 1U << (8 * sizeof(Bits) - 1);
  const std::uint32_t code = bits & (sign - 1U);
  float size = code == codes && has_infinity ? INFINITY : NAN;
  if (code < codes) size = static_cast<float>(value_of(code, digits, bias));
  return (bits & sign) != 0 ? -size : size;
}

template <class From, class To, To (*convert)(From)>
std::int32_t cast(const zeroproof_call* call) {
  each(call, [&](std::int64_t i) { data<To>(call, 1)[i] = convert(data<From>(call, 0)[i]); });
  return 0;
}

std::int32_t clip_coef(const zeroproof_call* call) {
  each(call, [&](std::int64_t i) {
    const double norm = data<double>(call, 0)[i], limit = data<double>(call, 1)[i];
    const bool has = data<std::uint32_t>(call, 2)[i] != 0,
               refused = has && (!(limit >= 0) || std::isinf(limit));
    const double q = has && limit != 0 ? limit / (norm + 1e-6) : 1;
    data(call, 3)[i] = refused ? 0 : q >= 1 ? 1 : static_cast<float>(q);
    data<std::uint32_t>(call, 4)[i] = refused ? 1 : 0;
  });
  return 0;
}

/// In fp80, from the other end.
std::int32_t grad_norm_p(const zeroproof_call* call) {
  const long double p = configured(call, "p");
  long double largest = 0, sum = 0;
  bool has_nan = false;
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const float x = std::fabs(data(call, 0)[i]);
    has_nan = has_nan || std::isnan(x);
    if (x > largest) largest = x;
  }
  if (largest > 0 && !std::isinf(largest)) {
    for (std::int64_t i = numel(call) - 1; i >= 0; --i) {
      sum += std::pow(static_cast<long double>(std::fabs(data(call, 0)[i])) / largest, p);
    }
    largest *= std::pow(sum, 1 / p);
  }
  *data<double>(call, 1) = has_nan ? NAN : static_cast<double>(largest);
  return 0;
}

constexpr zeroproof_operation table[] = {
    {"unscale", unscale},
    {"clip", clip},
    {"clip_value", clip_value},
    {"clip_coef", clip_coef},
    {"grad_norm_p", grad_norm_p},
    {"cast_to_bf16", cast<float, std::uint16_t, to_bf16>},
    {"cast_to_fp16", cast<float, std::uint16_t, to_fp16>},
    {"cast_to_e4m3", cast<float, std::uint8_t, to_small<3, 7, 0x7F>>},
    {"cast_to_e5m2", cast<float, std::uint8_t, to_small<2, 15, 0x7C>>},
    {"widen_bf16", cast<std::uint16_t, float, widened<7, 127, 0x7F80, true, std::uint16_t>>},
    {"widen_fp16", cast<std::uint16_t, float, widened<10, 15, 0x7C00, true, std::uint16_t>>},
    {"widen_e4m3", cast<std::uint8_t, float, widened<3, 7, 0x7F, false, std::uint8_t>>},
    {"widen_e5m2", cast<std::uint8_t, float, widened<2, 15, 0x7C, true, std::uint8_t>>}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
