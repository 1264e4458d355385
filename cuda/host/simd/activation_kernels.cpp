// Elementary functions and activations, and their table for one instruction set. Every line is rounded once (R2), and
// vector body and scalar tail are the same operations (R17).

#include "cuda/host/simd/activation_kernels.hpp"

#include "common/contracts/activations.hpp"
#include "cuda/host/simd/elementary.hpp"

namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE {
namespace {

void exp(const float* x, float* y, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) y[i] = exp_of(x[i]);
}

void tanh(const float* x, float* y, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) y[i] = tanh_of(x[i]);
}

void sigmoid(const float* x, float* y, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) y[i] = sigmoid_of(x[i]);
}

void erf(const float* x, float* y, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) y[i] = erf_of(x[i]);
}

void log(const float* x, float* y, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) y[i] = log_of(x[i]);
}

/// Value of a gate, and its derivative. An unused result is optimized away.
struct Gate {
  float factor;
  float slope;
};

ZP_ELEMENT Gate gelu_gate(float u) {
  const float a = gelu_scale * u;
  const float h = u * u;
  const float c = gelu_cubic * h;
  const float d = 1.0F + c;
  const float e = a * d;
  const float t = tanh_of(e);
  const float p = 1.0F + t;
  const float q = 0.5F * u;
  const float y = q * p;
  const float k = t * t;
  const float l = 1.0F - k;
  const float m = gelu_slope_cubic * h;
  const float n = gelu_scale + m;
  const float r = l * n;
  const float s = q * r;
  const float v = 0.5F * p;
  return {y, v + s};
}

/// u * sigmoid(a), with a = u or a multiple of it.
ZP_ELEMENT Gate sigmoid_gate(float u, float a) {
  const float s = sigmoid_of(a);
  const float h = u * s;
  const float e = 1.0F - s;
  const float b = a * e;
  const float c = 1.0F + b;
  return {h, s * c};
}

template <GateKind kind>
ZP_ELEMENT Gate gate_of(float u) {
  if constexpr (kind == GateKind::gelu) return gelu_gate(u);
  if constexpr (kind == GateKind::quick_gelu) return sigmoid_gate(u, quick_gelu_scale * u);
  if constexpr (kind == GateKind::silu) return sigmoid_gate(u, u);
}

void gelu(const float* x, const float* bias, float* y, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) y[i] = gelu_gate(x[i] + bias[i]).factor;
}

void gelu_backward(const float* dy, const float* x, const float* bias, float* dx,
                   std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) dx[i] = dy[i] * gelu_gate(x[i] + bias[i]).slope;
}

// R4: a NaN passes.
ZP_ELEMENT float not_above(float limit, float x) { return x > limit ? limit : x; }
ZP_ELEMENT float not_below(float limit, float x) { return x < limit ? limit : x; }

template <GateKind kind>
void gated_loop(const GatedForm& form, const GatedStretch& row, float* y, std::int64_t numel) {
  const float limit = form.limit;
  const float offset = form.offset;
  const float weight = row.weight;
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float u = not_above(limit, row.gate[i] + row.gate_bias[i]);
    const float v = not_above(limit, not_below(-limit, row.linear[i] + row.linear_bias[i]));
    const float w = v + offset;
    const float f = gate_of<kind>(u).factor * w;
    y[i] = f * weight;
  }
}

template <GateKind kind>
void gated_backward_loop(const GatedForm& form, const GatedStretch& row, const float* dy,
                         const GatedGradients& gradients, std::int64_t numel) {
  const float limit = form.limit;
  const float offset = form.offset;
  const float weight = row.weight;
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float free_u = row.gate[i] + row.gate_bias[i];
    const float free_v = row.linear[i] + row.linear_bias[i];
    const float u = not_above(limit, free_u);
    const float v = not_above(limit, not_below(-limit, free_v));
    const float w = v + offset;
    const Gate gate = gate_of<kind>(u);
    const float f = gate.factor * w;
    const float g = dy[i] * weight;
    const float p = g * w;
    const float d_gate = p * gate.slope;
    const float d_linear = g * gate.factor;
    gradients.gate[i] = free_u > limit ? 0.0F : d_gate;
    gradients.linear[i] = (free_v > limit) | (free_v < -limit) ? 0.0F : d_linear;
    gradients.products[i] = dy[i] * f;
  }
}

void gated(const GatedForm& form, const GatedStretch& row, float* y, std::int64_t numel) {
  switch (form.kind) {
    case GateKind::gelu:
      return gated_loop<GateKind::gelu>(form, row, y, numel);
    case GateKind::quick_gelu:
      return gated_loop<GateKind::quick_gelu>(form, row, y, numel);
    case GateKind::silu:
      return gated_loop<GateKind::silu>(form, row, y, numel);
  }
}

void gated_backward(const GatedForm& form, const GatedStretch& row, const float* dy,
                    const GatedGradients& gradients, std::int64_t numel) {
  switch (form.kind) {
    case GateKind::gelu:
      return gated_backward_loop<GateKind::gelu>(form, row, dy, gradients, numel);
    case GateKind::quick_gelu:
      return gated_backward_loop<GateKind::quick_gelu>(form, row, dy, gradients, numel);
    case GateKind::silu:
      return gated_backward_loop<GateKind::silu>(form, row, dy, gradients, numel);
  }
}

void squared_relu(const float* x, float weight, float* y, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float m = x[i] <= 0.0F ? 0.0F : x[i];
    const float f = m * m;
    y[i] = f * weight;
  }
}

void squared_relu_backward(const float* dy, const float* x, float weight, float* dx,
                           float* products, std::int64_t numel) {
#pragma omp simd
  for (std::int64_t i = 0; i < numel; ++i) {
    const float m = x[i] <= 0.0F ? 0.0F : x[i];
    const float f = m * m;
    const float g = dy[i] * weight;
    const float a = 2.0F * m;
    dx[i] = a * g;
    products[i] = dy[i] * f;
  }
}

}  // namespace

extern const ActivationKernels activations;
const ActivationKernels activations = {exp,
                                       tanh,
                                       sigmoid,
                                       erf,
                                       log,
                                       gelu,
                                       gelu_backward,
                                       gated,
                                       gated_backward,
                                       squared_relu,
                                       squared_relu_backward};

}  // namespace zeroproof::cuda::host::ZP_ISA_NAMESPACE
