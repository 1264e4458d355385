#pragma once
// The loops of the elementary functions and of the activations over raw memory: a table separate
// from kernels.hpp, also compiled once per instruction set.

#include <cstdint>

#include "common/base/exec.hpp"

namespace zeroproof::cuda::host {

enum class GateKind : std::uint8_t { gelu, quick_gelu, silu };

/// factor(gate) * (linear + offset). The defaults change no bit: adding -0 has no effect, and no
/// value is above infinity.
struct GatedForm {
  GateKind kind = GateKind::gelu;
  float offset = -0.0F;
  float limit = __builtin_inff();
};

/// A range of one row. Biases are always present: -0 where the caller has none.
struct GatedStretch {
  const float* gate = nullptr;
  const float* linear = nullptr;
  const float* gate_bias = nullptr;
  const float* linear_bias = nullptr;
  float weight = 1.0F;  ///< of the row
};

struct GatedGradients {
  float* gate = nullptr;
  float* linear = nullptr;
  float* products = nullptr;  ///< dy * f, the terms of the gradient of the weight
};

/// No two buffers overlap, but y may be x in the elementary functions.
struct ActivationKernels {
  void (*exp)(const float* x, float* y, std::int64_t numel);
  void (*tanh)(const float* x, float* y, std::int64_t numel);
  void (*sigmoid)(const float* x, float* y, std::int64_t numel);
  void (*erf)(const float* x, float* y, std::int64_t numel);
  void (*log)(const float* x, float* y, std::int64_t numel);

  void (*gelu)(const float* x, const float* bias, float* y, std::int64_t numel);
  void (*gelu_backward)(const float* dy, const float* x, const float* bias, float* dx,
                        std::int64_t numel);
  void (*gated)(const GatedForm& form, const GatedStretch& stretch, float* y, std::int64_t numel);
  void (*gated_backward)(const GatedForm& form, const GatedStretch& stretch, const float* dy,
                         const GatedGradients& gradients, std::int64_t numel);
  void (*squared_relu)(const float* x, float weight, float* y, std::int64_t numel);
  /// products: dy * f.
  void (*squared_relu_backward)(const float* dy, const float* x, float weight, float* dx,
                                float* products, std::int64_t numel);
};

/// The table of one instruction set; Isa::best is resolved. Errors: as best_isa().
const ActivationKernels& activation_kernels(Isa isa);

}  // namespace zeroproof::cuda::host
