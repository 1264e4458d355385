#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/formats/scale_checks.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr float largest_scale = std::numeric_limits<float>::max();
constexpr float smallest_scale = std::numeric_limits<float>::min();
constexpr std::uint32_t infinite_amax = 0x7F800000U;

float current_scale(const CurrentScaling& settings, std::uint32_t amax) {
  if (amax >= infinite_amax) return 1;
  const float a =
      std::bit_cast<float>(amax) < settings.epsilon ? settings.epsilon : std::bit_cast<float>(amax);
  if (a == 0) return 1;
  const float s = largest_of(settings.format) / a;
  const auto bits = std::bit_cast<std::uint32_t>(s > largest_scale ? largest_scale : s);
  return std::bit_cast<float>(settings.power_of_two ? bits & 0xFF800000U : bits);
}

/// 2^(127 - code).
float scale_of_exponent(std::uint32_t code) {
  if (code == 255U) return std::bit_cast<float>(0x7FFFFFFFU);
  return std::bit_cast<float>(code == 254U ? 0x00400000U : (254U - code) << 23);
}

/// The smallest power of two that is not below a value >= 0.
std::uint32_t exponent_above(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (bits > infinite_amax) return 255U;
  const std::uint32_t exponent = bits >> 23, fraction = bits & 0x7FFFFFU;
  if (exponent == 0U) return fraction > 0x400000U ? 1U : 0U;
  return std::min(exponent + (fraction != 0U ? 1U : 0U), 254U);
}

}  // namespace

void current_scales(const Exec& exec, const CurrentScaling& settings,
                    Span<const std::uint32_t> amax, Span<float> scale, Span<float> scale_inv) {
  require_same_numel("current_scales", "amax", amax.size(), "scale", scale.size());
  require_same_numel("current_scales", "amax", amax.size(), "scale_inv", scale_inv.size());
  require_epsilon(settings.epsilon);
  parallel_blocks(exec, numel(amax), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      scale[i] = current_scale(settings, amax[i]);
      scale_inv[i] = 1.0F / scale[i];
    }
  });
}

void mxfp8_scales(const Exec& exec, Fp8 format, Span<const std::uint32_t> amax, Span<e8m0> exponent,
                  Span<float> scale) {
  require_same_numel("mxfp8_scales", "amax", amax.size(), "exponent", exponent.size());
  require_same_numel("mxfp8_scales", "amax", amax.size(), "scale", scale.size());
  const float factor = std::bit_cast<float>(format == Fp8::e4m3 ? 0x3B124925U : 0x37924925U);
  parallel_blocks(exec, numel(amax), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::uint32_t code =
          amax[i] > infinite_amax ? 255U : exponent_above(std::bit_cast<float>(amax[i]) * factor);
      exponent[i].bits = static_cast<std::uint8_t>(code);
      scale[i] = scale_of_exponent(code);
    }
  });
}

void delayed_scales(const Exec& exec, const DelayedScaling& options, Span<std::uint32_t> history,
                    Span<float> scale, Span<float> scale_inv) {
  require_history(options, history.size(), scale.size());
  require_same_numel("delayed_scales", "scale", scale.size(), "scale_inv", scale_inv.size());
  const float top = std::ldexp(largest_of(options.format), -options.margin);
  const auto slots = static_cast<std::size_t>(options.history);
  parallel_blocks(exec, numel(scale), [&](std::int64_t begin, std::int64_t end) {
    for (auto t = static_cast<std::size_t>(begin); t < static_cast<std::size_t>(end); ++t) {
      const Span<std::uint32_t> h = history.subspan(t * slots, slots);
      if (h[0] != 0U || options.empty == EmptyAmax::roll) {
        const std::uint32_t amax =
            options.choice == AmaxChoice::max ? *std::max_element(h.begin(), h.end()) : h[0];
        if (amax != 0U && amax < infinite_amax) {
          const float s = top / std::bit_cast<float>(amax);
          scale[t] = s > largest_scale ? largest_scale : s < smallest_scale ? smallest_scale : s;
        }
        if (slots > 1) {
          std::copy(h.begin() + 2, h.end(), h.begin() + 1);
          h[slots - 1] = h[0];
        }
        h[0] = 0;
      }
      scale_inv[t] = 1.0F / scale[t];
    }
  });
}

}  // namespace zeroproof::cuda::host
