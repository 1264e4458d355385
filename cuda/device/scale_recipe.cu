#include "cuda/device/scale_recipe.hpp"

#include "cuda/device/cast_element.cuh"
#include "cuda/device/elementwise.cuh"
#include "cuda/device/numels.hpp"
#include "cuda/host/scale_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

constexpr std::uint32_t infinite = 0x7F800000U;
constexpr std::uint32_t largest_finite = 0x7F7FFFFFU;
constexpr std::uint32_t smallest_normal = 0x00800000U;

struct Current {
  static constexpr int pack_numel = 1;
  const std::uint32_t* amax;  // [num_blocks]
  float* scale;
  float* scale_inv;
  float top, epsilon;
  bool power_of_two;

  ZP_DEVICE void one(std::int64_t i) const {
    const float raised = float_of(amax[i]) < epsilon ? epsilon : float_of(amax[i]);
    float s = 1.0F;
    if (amax[i] < infinite && raised != 0.0F) {
      std::uint32_t bits = bits_of(top / raised);
      if (bits == infinite) bits = largest_finite;
      s = float_of(power_of_two ? bits & 0xFF800000U : bits);
    }
    scale[i] = s;
    scale_inv[i] = 1.0F / s;
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

struct Mxfp8 {
  static constexpr int pack_numel = 1;
  const std::uint32_t* amax;  // [num_blocks]
  e8m0* exponent;
  float* scale;
  float factor;

  ZP_DEVICE void one(std::int64_t i) const {
    const bool nan = amax[i] > infinite;
    const std::uint8_t code = nan ? 0xFFU : e8m0_bits(float_of(amax[i]) * factor);
    exponent[i].bits = code;
    // 2^(127 - code) is what e8m0 calls 254 - code.
    scale[i] = float_of_e8m0(code == 0xFFU ? code : static_cast<std::uint8_t>(0xFEU - code));
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

struct Delayed {
  static constexpr int pack_numel = 1;
  std::uint32_t* history;  // [num_tensors * slots]
  float* scale;            // [num_tensors]
  float* scale_inv;
  std::int64_t slots;
  float top;
  bool takes_largest, rolls_empty;

  ZP_DEVICE void one(std::int64_t t) const {
    std::uint32_t* const h = history + t * slots;
    const std::uint32_t collected = h[0];
    if (collected != 0U || rolls_empty) {
      std::uint32_t amax = collected;
      for (std::int64_t k = 1; k < slots; ++k) {
        if (takes_largest && h[k] > amax) amax = h[k];
        if (k > 1) h[k - 1] = h[k];
      }
      if (amax != 0U && amax < infinite) {
        const std::uint32_t bits = bits_of(top / float_of(amax));
        scale[t] = float_of(bits == infinite         ? largest_finite
                            : bits < smallest_normal ? smallest_normal
                                                     : bits);
      }
      if (slots > 1) h[slots - 1] = collected;
      h[0] = 0U;
    }
    scale_inv[t] = 1.0F / scale[t];
  }

  ZP_DEVICE void pack(std::int64_t t) const { one(t); }
};

/// top * 2^-margin, which is exact: a difference of exponents.
float lowered(Fp8 format, int margin) {
  return float_of(bits_of(largest_of(format)) - (static_cast<std::uint32_t>(margin) << 23));
}

}  // namespace

void current_scales(const Exec&, const CurrentScaling& settings, Span<const std::uint32_t> amax,
                    Span<float> scale, Span<float> scale_inv) {
  require_same_numel("amax", amax, "scale", scale);
  require_same_numel("amax", amax, "scale_inv", scale_inv);
  require_epsilon(settings.epsilon);
  if (amax.empty()) return;
  const Current operation{amax.data(),      scale.data(),
                          scale_inv.data(), largest_of(settings.format),
                          settings.epsilon, settings.power_of_two};
  run_elementwise(operation, numel(amax));
}

void mxfp8_scales(const Exec&, Fp8 format, Span<const std::uint32_t> amax, Span<e8m0> exponent,
                  Span<float> scale) {
  require_same_numel("amax", amax, "exponent", exponent);
  require_same_numel("amax", amax, "scale", scale);
  if (amax.empty()) return;
  const float factor = float_of(format == Fp8::e4m3 ? 0x3B124925U : 0x37924925U);
  const Mxfp8 operation{amax.data(), exponent.data(), scale.data(), factor};
  run_elementwise(operation, numel(amax));
}

void delayed_scales(const Exec&, const DelayedScaling& options, Span<std::uint32_t> history,
                    Span<float> scale, Span<float> scale_inv) {
  require_history(options, history.size(), scale.size());
  require_same_numel("scale", scale, "scale_inv", scale_inv);
  if (scale.empty()) return;
  const Delayed operation{history.data(),
                          scale.data(),
                          scale_inv.data(),
                          options.history,
                          lowered(options.format, options.margin),
                          options.choice == AmaxChoice::max,
                          options.empty == EmptyAmax::roll};
  run_elementwise(operation, numel(scale));
}

}  // namespace zeroproof::cuda::device
