#include <bit>
#include <cmath>

#include <Eigen/Core>

#include "common/base/philox.hpp"
#include "reference/checks.hpp"
#include "reference/formats/fp8.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// Exact. Both kinds of value are computed and one is selected without a branch, so that the
/// compiler vectorizes the loop: every micro-batch gradient passes through it.
float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFU;
  // The fraction has 10 bits in fp16 and 23 in fp32, the exponent biases are 15 and 127; an
  // exponent of all ones stays all ones (infinity, NaN).
  const std::uint32_t rebias = magnitude < 0x7C00U ? 112U << 23 : 224U << 23;
  const std::uint32_t normal = (magnitude << 13) + rebias;
  const auto subnormal = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  const std::uint32_t is_subnormal = magnitude < 0x400U ? ~0U : 0U;
  return std::bit_cast<float>(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal));
}

}  // namespace

// Eigen's 16-bit types round to nearest even in integer arithmetic and keep subnormals, which is
// R8; the tests compare them with independent code. With F16C, which this project does not enable
// here, Eigen would use the processor's instruction, which obeys R8 too. Only the widening of fp16
// has code of its own.

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  check_same_numel("cast_to_bf16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(source[i]));
  }
}

void cast_to_fp16(const Exec&, Span<const float> source, Span<fp16> target) {
  check_same_numel("cast_to_fp16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(source[i]));
  }
}

void cast_to_e4m3(const Exec&, Span<const float> source, Span<e4m3> target) {
  check_same_numel("cast_to_e4m3", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i)
    target[i].bits = to_fp8(source[i], e4m3_format, Overflow::saturate);
}

void cast_to_e5m2(const Exec&, Span<const float> source, Span<e5m2> target) {
  check_same_numel("cast_to_e5m2", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i)
    target[i].bits = to_fp8(source[i], e5m2_format, Overflow::saturate);
}

void nonfinite_cast_to_e4m3(const Exec&, Span<const float> source, Span<e4m3> target) {
  check_same_numel("nonfinite_cast_to_e4m3", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = to_fp8(source[i], e4m3_format, Overflow::nonfinite);
  }
}

void nonfinite_cast_to_e5m2(const Exec&, Span<const float> source, Span<e5m2> target) {
  check_same_numel("nonfinite_cast_to_e5m2", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i].bits = to_fp8(source[i], e5m2_format, Overflow::nonfinite);
  }
}

void cast_to_e8m0(const Exec&, Span<const float> source, Span<e8m0> target) {
  check_same_numel("cast_to_e8m0", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i].bits = to_e8m0(source[i]);
}

void stochastic_cast_to_bf16(const Exec&, const RoundingDraw& draw, Span<const float> source,
                             Span<bf16> target) {
  check_same_numel("stochastic_cast_to_bf16", "source", source.size(), "target", target.size());
  const Philox philox(draw.seed, stochastic_rounding_stream, static_cast<std::uint32_t>(draw.step));
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (std::isnan(source[i])) {
      target[i].bits = 0x7FFF;  // adding to its bits could give an infinity
      continue;
    }
    // The lower half of b is the distance from the next bf16 toward zero, in units of 2^-16 of the
    // gap. The sum carries into the upper half for exactly that share of all draws [SR:unbiased].
    const std::uint32_t b = std::bit_cast<std::uint32_t>(source[i]);
    const std::uint32_t w = philox.word(draw.first_index + i);
    target[i].bits = static_cast<std::uint16_t>((b + (w >> 16)) >> 16);
  }
}

void widen_bf16(const Exec&, Span<const bf16> source, Span<float> target) {
  check_same_numel("widen_bf16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    target[i] = static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(source[i].bits));
  }
}

void widen_fp16(const Exec&, Span<const fp16> source, Span<float> target) {
  check_same_numel("widen_fp16", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i] = from_fp16(source[i].bits);
}

void widen_e4m3(const Exec&, Span<const e4m3> source, Span<float> target) {
  check_same_numel("widen_e4m3", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i] = from_fp8(source[i].bits, e4m3_format);
}

void widen_e5m2(const Exec&, Span<const e5m2> source, Span<float> target) {
  check_same_numel("widen_e5m2", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i] = from_fp8(source[i].bits, e5m2_format);
}

void widen_e8m0(const Exec&, Span<const e8m0> source, Span<float> target) {
  check_same_numel("widen_e8m0", "source", source.size(), "target", target.size());
  for (std::size_t i = 0; i < source.size(); ++i) target[i] = from_e8m0(source[i].bits);
}

}  // namespace zeroproof::reference
