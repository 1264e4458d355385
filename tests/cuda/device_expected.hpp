#pragma once
// Buffers at chosen places in memory, inputs, and the expected results of the device twins: plain loops, with
// volatile temporaries so that no compiler joins two operations, and library functions instead of bit tricks.

#include <doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/contracts/step_scalars.hpp"

namespace zeroproof::device_test {

template <class T>
struct FormatOf;  // of the 16-bit formats
template <>
struct FormatOf<bf16> {
  static constexpr int fraction_bits = 7, bias = 127;
};
template <>
struct FormatOf<fp16> {
  static constexpr int fraction_bits = 10, bias = 15;
};

inline bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <class Format>
bool same(Format a, Format b) {
  const int infinity = 0x7FFF >> FormatOf<Format>::fraction_bits << FormatOf<Format>::fraction_bits;
  return a.bits == b.bits || ((a.bits & 0x7FFF) > infinity && (b.bits & 0x7FFF) > infinity);
}

/// numel elements, `offset` elements behind a 16-byte boundary, between bytes that nothing may change.
template <class T>
class Place {
 public:
  Place(std::int64_t numel, int offset)
      : numel_(static_cast<std::size_t>(numel)),
        before_(static_cast<std::size_t>(offset) + 16),
        storage_(before_ + numel_ + 16) {
    std::memset(static_cast<void*>(storage_.data()), guard, storage_.size() * sizeof(T));
  }
  Span<T> span() { return {storage_.data() + before_, numel_}; }
  Span<const T> span() const { return {storage_.data() + before_, numel_}; }
  T operator[](std::int64_t i) const { return storage_[before_ + static_cast<std::size_t>(i)]; }

  /// Every element has the expected bits, and nothing around them has changed.
  template <class Expected>
  void check(Expected&& expected) const {
    std::int64_t differ = 0, first = -1;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(numel_); ++i) {
      if (same((*this)[i], expected(i))) continue;
      if (differ++ == 0) first = i;
    }
    CAPTURE(first);
    CHECK(differ == 0);
    CHECK(guards_intact());
  }

 private:
  static constexpr unsigned char guard = 0xA5;

  bool guards_intact() const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(storage_.data());
    for (std::size_t i = 0; i < storage_.size() * sizeof(T); ++i) {
      const bool inside = i >= before_ * sizeof(T) && i < (before_ + numel_) * sizeof(T);
      if (!inside && bytes[i] != guard) return false;
    }
    return true;
  }

  std::size_t numel_;
  std::size_t before_;
  std::vector<T> storage_;
};

inline std::uint32_t hash(std::uint64_t i, std::uint64_t stream) {
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ULL + stream * 0xD1B54A32D192ED03ULL;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::uint32_t>((x ^ x >> 27) >> 16);
}

/// Special values, any bits at all, and values of the usual size, in turn.
inline void fill(Span<float> values, std::uint64_t stream) {
  constexpr std::uint32_t special[] = {
      0,          0x80000000, 1,          0x80000001, 0x007FFFFF, 0x00800000, 0x3F800000, 0xBF800000,
      0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001, 0x33000000, 0x33000001,
      0x33800000, 0x38800000, 0x387FE000, 0x387FF000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x3F808000,
      0x3F818000, 0x3F808001, 0x7F7F8000, 0x7F7F7FFF, 0x3F801000, 0x3F803000, 0x00008000, 0x00018000};
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    const std::uint32_t bits = hash(i, stream);
    if (bits % 3 == 0) values[i] = std::bit_cast<float>(special[bits / 3 % std::size(special)]);
    if (bits % 3 == 1) values[i] = std::bit_cast<float>(hash(i, stream + 100));
    if (bits % 3 == 2) values[i] = (static_cast<float>(bits >> 8) - 0x1p23F) * 0x1p-24F;
  }
}

template <class Format>
void fill(Span<Format> values, std::uint64_t stream) {
  for (std::uint64_t i = 0; i < values.size(); ++i)
    values[i].bits = static_cast<std::uint16_t>(hash(i, stream));
}

inline void fill_finite(Span<float> values, std::uint64_t stream) {
  fill(values, stream);
  for (float& x : values) {
    if (!std::isfinite(x)) x = -0.0F;
  }
}

inline float expected_sum(float left, float right) {
  volatile float sum = left + right;
  return sum;
}

inline float expected_product(float x, float factor) {
  volatile float product = x * factor;
  return product;
}

/// Counts units of the last place near the value and rounds the count to the nearest even integer.
template <class Format>
Format expected_narrow(float value) {
  constexpr int fraction_bits = FormatOf<Format>::fraction_bits, bias = FormatOf<Format>::bias;
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const int infinity = (2 * bias + 1) << fraction_bits;
  if (std::isnan(value)) return {0x7FFF};
  if (std::isinf(value)) return {static_cast<std::uint16_t>(sign | infinity)};
  const double magnitude = std::fabs(static_cast<double>(value));
  const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent)));
  // A normal number has the leading bit among its units, and an exponent field that is one larger for it.
  const int bits = ((exponent + bias - 1) << fraction_bits) + units;
  return {static_cast<std::uint16_t>(sign | std::min(bits, infinity))};
}

template <class Format>
float expected_widen(Format value) {
  constexpr int fraction_bits = FormatOf<Format>::fraction_bits, bias = FormatOf<Format>::bias;
  const int fraction = value.bits & ((1 << fraction_bits) - 1);
  const int exponent = (value.bits & 0x7FFF) >> fraction_bits;
  double magnitude = std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
  if (exponent == 0) magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
  if (exponent == 2 * bias + 1) magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  return static_cast<float>(std::copysign(magnitude, (value.bits & 0x8000) != 0 ? -1.0 : 1.0));
}

struct AdamwValues {
  float master, exp_avg, exp_avg_sq;
};

inline AdamwValues expected_adamw(const StepScalars& s, float g, float master, float m, float v) {
  volatile float a1 = s.beta1 * m;
  volatile float a2 = s.one_minus_beta1 * g;
  volatile float new_m = a1 + a2;
  volatile float h = g * g;
  volatile float b1 = s.beta2 * v;
  volatile float b2 = s.one_minus_beta2 * h;
  volatile float new_v = b1 + b2;
  volatile float root = std::sqrt(static_cast<float>(new_v));
  volatile float r = root / s.sqrt_bias_correction2;
  volatile float d = r + s.eps;
  volatile float q = new_m / d;
  volatile float u = s.step_size * q;
  if (s.has_decay != 0) {
    volatile float w = s.lr_weight_decay * master;
    u = u + w;
  }
  volatile float new_master = master - u;
  return {new_master, new_m, new_v};
}

/// R12 as it is written: 32 lanes, then the halving tree.
inline double expected_chunk(const Place<float>& grad, std::int64_t first, std::int64_t numel) {
  double a[32] = {};
  for (int l = 0; l < 32; ++l) {
    for (int s = 0; s < 32; ++s) {
      const std::int64_t i = first + 32 * s + l;
      volatile double square = i < numel ? static_cast<double>(grad[i]) * static_cast<double>(grad[i]) : 0.0;
      volatile double sum = a[l] + square;
      a[l] = sum;
    }
  }
  for (int w = 16; w > 0; w /= 2) {
    for (int l = 0; l < w; ++l) a[l] = a[l] + a[l + w];
  }
  return a[0];
}

/// Bit by bit: bit k of m has the weight of bit (q + k) mod 32 of limb floor((q + k) / 32).
inline void expected_deposit(double chunk_value, NormLimbs& limbs) {
  if (std::isnan(chunk_value)) ++limbs.nan_count;
  if (std::isinf(chunk_value)) ++limbs.inf_count;
  if (!std::isfinite(chunk_value) || chunk_value == 0) return;
  int exponent = 0;
  const auto m = static_cast<std::uint64_t>(std::ldexp(std::frexp(chunk_value, &exponent), 53));
  const int q = exponent - 53 + 352;
  for (int k = 0; k < 53; ++k) {
    if ((m >> k & 1) != 0) limbs.limbs[static_cast<std::size_t>((q + k) / 32)] += 1ULL << (q + k) % 32;
  }
}

inline void normalise(NormLimbs& limbs) {
  for (std::size_t i = 0; i + 1 < limbs.limbs.size(); ++i) {
    limbs.limbs[i + 1] += limbs.limbs[i] >> 32;
    limbs.limbs[i] &= 0xFFFFFFFFULL;
  }
}

}  // namespace zeroproof::device_test
