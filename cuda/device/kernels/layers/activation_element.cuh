#pragma once
// Activations of one element; one rounding per statement (R2). Values that an operation does not
// use are not computed.

#include "common/contracts/activations.hpp"
#include "cuda/device/kernels/layers/elementary_element.cuh"

namespace zeroproof::cuda::device {

enum class Gate { gelu, quick_gelu, silu };

/// The value of a gate and its derivative.
struct GateValues {
  float factor;
  float slope;
};

ZP_HOST_DEVICE inline GateValues gelu_values(float u) {
  const float a = gelu_scale * u;
  const float h = u * u;
  const float c = gelu_cubic * h;
  const float d = 1.0F + c;
  const float e = a * d;
  const float t = elementary_tanh_of(e);
  const float p = 1.0F + t;
  const float q = 0.5F * u;
  GateValues values;
  values.factor = q * p;

  const float k = t * t;
  const float l = 1.0F - k;
  const float m = gelu_slope_cubic * h;
  const float n = gelu_scale + m;
  const float r = l * n;
  const float s = q * r;
  const float v = 0.5F * p;
  values.slope = v + s;
  return values;
}

/// u * sigmoid(a), where a is u times a constant.
ZP_HOST_DEVICE inline GateValues sigmoid_values(float u, float a) {
  const float s = elementary_sigmoid_of(a);
  GateValues values;
  values.factor = u * s;

  const float e = 1.0F - s;
  const float b = a * e;
  const float c = 1.0F + b;
  values.slope = s * c;
  return values;
}

template <Gate gate>
ZP_HOST_DEVICE inline GateValues gate_values(float u) {
  if constexpr (gate == Gate::gelu) {
    return gelu_values(u);
  } else if constexpr (gate == Gate::quick_gelu) {
    return sigmoid_values(u, quick_gelu_scale * u);
  } else {
    return sigmoid_values(u, u);
  }
}

/// Parameters of a gated activation; those that a gate does not use change no bit (an offset of -0,
/// a limit of infinity).
struct GatedSettings {
  float offset;
  float limit;
};

/// gate and linear as loaded, with the bias added, and the weight of the row (1: none).
struct GatedInputs {
  float gate;
  float linear;
  float weight;
};

template <Gate gate>
ZP_HOST_DEVICE inline float gated_element(const GatedSettings& settings, const GatedInputs& in) {
  const float u = not_above(settings.limit, in.gate);
  const float v = not_below(-settings.limit, not_above(settings.limit, in.linear));
  const float w = v + settings.offset;
  const float f = gate_values<gate>(u).factor * w;
  return f * in.weight;
}

struct GatedGradient {
  float gate;
  float linear;
  float product;  ///< dy * f, one term of the gradient of the weight
};

template <Gate gate>
ZP_HOST_DEVICE inline GatedGradient gated_gradient(const GatedSettings& settings,
                                                   const GatedInputs& in, float dy) {
  const float u = not_above(settings.limit, in.gate);
  const float v = not_below(-settings.limit, not_above(settings.limit, in.linear));
  const float w = v + settings.offset;
  const GateValues values = gate_values<gate>(u);
  const float f = values.factor * w;
  const float g = dy * in.weight;
  const float p = g * w;
  GatedGradient gradient;
  gradient.gate = p * values.slope;
  gradient.linear = g * values.factor;
  gradient.product = dy * f;
  if (in.gate > settings.limit) gradient.gate = 0.0F;
  if (in.linear > settings.limit || in.linear < -settings.limit) gradient.linear = 0.0F;
  return gradient;
}

}  // namespace zeroproof::cuda::device
