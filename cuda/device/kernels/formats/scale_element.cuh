#pragma once
// Scales of one block from its largest magnitude (R22).

#include "common/contracts/scale_recipe.hpp"
#include "cuda/device/kernels/formats/cast_element.cuh"

namespace zeroproof::cuda::device {

/// top / divisor, limited to the largest finite fp32.
ZP_HOST_DEVICE inline std::uint32_t finite_quotient_bits(float top, float divisor) {
  const std::uint32_t bits = bits_of(top / divisor);
  return bits == infinite_amax ? 0x7F7FFFFFU : bits;
}

/// Recipes current and blockwise. top: largest value of the format.
struct CurrentScale {
  float top, epsilon;
  bool power_of_two;

  ZP_HOST_DEVICE float operator()(std::uint32_t amax) const {
    const float raised = float_of(amax) < epsilon ? epsilon : float_of(amax);
    if (amax >= infinite_amax || raised == 0.0F) return 1.0F;
    const std::uint32_t bits = finite_quotient_bits(top, raised);
    return float_of(power_of_two ? bits & 0xFF800000U : bits);
  }
};

inline CurrentScale current_scale(const CurrentScaling& settings) {
  return {largest_of(settings.format), settings.epsilon, settings.power_of_two};
}

/// Recipe mxfp8: the code of scale_inv.
struct Mxfp8Exponent {
  float factor;  ///< fp32(1 / top)

  ZP_HOST_DEVICE std::uint8_t operator()(std::uint32_t amax) const {
    return amax > infinite_amax ? std::uint8_t{0xFFU} : e8m0_bits(float_of(amax) * factor);
  }

  /// 2^(127 - code) has the e8m0 code 254 - code.
  ZP_HOST_DEVICE static float scale_of(std::uint8_t code) {
    return float_of_e8m0(code == 0xFFU ? code : static_cast<std::uint8_t>(0xFEU - code));
  }
};

inline Mxfp8Exponent mxfp8_exponent(Fp8 format) {
  return {float_of(format == Fp8::e4m3 ? 0x3B124925U : 0x37924925U)};
}

/// Recipe delayed: the scale for the amax of a history; `stays` if the amax is 0 or not finite.
struct DelayedScale {
  float top;  ///< largest value of the format, times 2^-margin

  ZP_HOST_DEVICE float operator()(std::uint32_t amax, float stays) const {
    if (amax == 0U || amax >= infinite_amax) return stays;
    constexpr std::uint32_t smallest_normal = 0x00800000U;
    const std::uint32_t bits = finite_quotient_bits(top, float_of(amax));
    return float_of(bits < smallest_normal ? smallest_normal : bits);
  }
};

/// The product is exact: only the exponent changes.
inline DelayedScale delayed_scale(Fp8 format, int margin) {
  return {float_of(bits_of(largest_of(format)) - (static_cast<std::uint32_t>(margin) << 23))};
}

}  // namespace zeroproof::cuda::device
