#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "reference/checks.hpp"
#include "reference/formats/fp8.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

constexpr float largest_fp32 = std::numeric_limits<float>::max();
constexpr float smallest_normal = std::numeric_limits<float>::min();
constexpr std::uint32_t amax_infinity = 0x7F800000U;
constexpr std::uint32_t without_fraction = 0xFF800000U;

/// The magnitude of an amax; every pattern above infinity is a NaN.
float amax_value(std::uint32_t amax) {
  return amax > amax_infinity ? std::numeric_limits<float>::quiet_NaN()
                              : std::bit_cast<float>(amax);
}

/// [SCALE:current].
float current_scale(const CurrentScaling& options, std::uint32_t amax) {
  float a = amax_value(amax);
  if (a < options.epsilon) a = options.epsilon;
  if (a == 0 || !std::isfinite(a)) return 1;
  const float quotient = largest_of(options.format) / a;
  const float s = std::isinf(quotient) ? largest_fp32 : quotient;
  return options.power_of_two
             ? std::bit_cast<float>(std::bit_cast<std::uint32_t>(s) & without_fraction)
             : s;
}

/// [SCALE:delayed]: from an m above 0 that is a number.
float delayed_scale(const DelayedScaling& options, std::uint32_t m) {
  const float top = std::ldexp(largest_of(options.format), -options.margin);
  const float s = top / amax_value(m);
  if (std::isinf(s)) return largest_fp32;
  return s < smallest_normal ? smallest_normal : s;
}

void check_delayed(const DelayedScaling& options, std::size_t history, std::size_t scale,
                   std::size_t scale_inv) {
  ZP_CHECK(options.margin >= 0 && options.margin <= 64, ErrorCode::invalid_argument,
           "delayed_scales: the margin is " + std::to_string(options.margin),
           "it is a number of spare bits", "use 0 to 64");
  ZP_CHECK(options.history >= 1 && options.history <= 1024, ErrorCode::invalid_argument,
           "delayed_scales: a history has " + std::to_string(options.history) + " slots",
           "the first slot collects, and at most 1024 steps are used", "use 1 to 1024");
  check_same_numel("delayed_scales", "scale", scale, "scale_inv", scale_inv);
  check_same_numel("delayed_scales", "history", history, "scale times its slots",
                   scale * static_cast<std::size_t>(options.history));
}

}  // namespace

void current_scales(const Exec&, const CurrentScaling& options, Span<const std::uint32_t> amax,
                    Span<float> scale, Span<float> scale_inv) {
  ZP_CHECK(std::isfinite(options.epsilon) && options.epsilon >= 0, ErrorCode::invalid_argument,
           "current_scales: epsilon is " + text(options.epsilon), "it replaces a smaller amax",
           "use a finite number of at least 0");
  check_same_numel("current_scales", "amax", amax.size(), "scale", scale.size());
  check_same_numel("current_scales", "amax", amax.size(), "scale_inv", scale_inv.size());
  for (std::size_t b = 0; b < amax.size(); ++b) {
    scale[b] = current_scale(options, amax[b]);
    scale_inv[b] = 1 / scale[b];
  }
}

void mxfp8_scales(const Exec&, Fp8 format, Span<const std::uint32_t> amax, Span<e8m0> exponent,
                  Span<float> scale) {
  check_same_numel("mxfp8_scales", "amax", amax.size(), "exponent", exponent.size());
  check_same_numel("mxfp8_scales", "amax", amax.size(), "scale", scale.size());
  const float c = 1 / largest_of(format);
  for (std::size_t b = 0; b < amax.size(); ++b) {
    const float p = amax_value(amax[b]) * c;
    exponent[b].bits = to_e8m0(p);
    // The reciprocal of a power of two is exact, also where it is subnormal; that of a NaN is a NaN
    // [SCALE:mx].
    scale[b] = 1 / from_e8m0(exponent[b].bits);
  }
}

void delayed_scales(const Exec&, const DelayedScaling& options, Span<std::uint32_t> history,
                    Span<float> scale, Span<float> scale_inv) {
  check_delayed(options, history.size(), scale.size(), scale_inv.size());
  const auto slots = static_cast<std::size_t>(options.history);
  for (std::size_t tensor = 0; tensor < scale.size(); ++tensor) {
    const Span<std::uint32_t> h = history.subspan(tensor * slots, slots);
    const std::uint32_t collected = h[0];
    if (collected != 0 || options.empty == EmptyAmax::roll) {
      const std::uint32_t m =
          options.choice == AmaxChoice::max ? *std::max_element(h.begin(), h.end()) : collected;
      if (m != 0 && m < amax_infinity) scale[tensor] = delayed_scale(options, m);
      // The newest amax goes to the end; slot 0, the oldest one, becomes the one that collects.
      std::rotate(h.begin(), h.begin() + 1, h.end());
      h[0] = 0;
    }
    scale_inv[tensor] = 1 / scale[tensor];
  }
}

}  // namespace zeroproof::reference
