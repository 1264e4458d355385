#include <string>

#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/base/single.cuh"
#include "cuda/device/kernels/gradients/norm_finish.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

struct Coefficient {
  double grad_norm;
  double max_norm;  // 0: no limit

  ZP_DEVICE float operator()() const { return clip_coef_of(grad_norm, max_norm); }
};

struct Clip {
  static constexpr int pack_numel = 4;
  const float* unscaled_grad;  // [numel], may be grad
  float* grad;
  float clip_coef;

  ZP_DEVICE void one(std::int64_t i) const { grad[i] = unscaled_grad[i] * clip_coef; }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<float> g = load_pack(unscaled_grad + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) g.v[k] = g.v[k] * clip_coef;
    store_pack(grad + i, g);
  }
};

struct ClipValue {
  static constexpr int pack_numel = 4;
  float* grad;  // [numel]
  float clip_value;

  // Comparisons instead of minimum and maximum, which would replace a NaN (R4).
  ZP_DEVICE float clipped(float g) const {
    if (g > clip_value) return clip_value;
    return g < -clip_value ? -clip_value : g;
  }

  ZP_DEVICE void one(std::int64_t i) const { grad[i] = clipped(grad[i]); }

  ZP_DEVICE void pack(std::int64_t i) const {
    Pack<float> g = load_pack(grad + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) g.v[k] = clipped(g.v[k]);
    store_pack(grad + i, g);
  }
};

}  // namespace

float clip_coef(double grad_norm, std::optional<double> max_norm) {
  const double limit = max_norm.value_or(0.0);
  ZP_CHECK(is_finite(limit) && limit >= 0.0, ErrorCode::invalid_argument,
           "max_norm is " + std::to_string(limit), "the clip coefficient would be negative or NaN",
           "pass a finite number of at least 0, or no limit");
  return on_device<float>(Coefficient{grad_norm, limit});
}

void clip(const Exec&, float clip_coef, Span<const float> unscaled_grad, Span<float> grad) {
  require_same_numel("unscaled_grad", unscaled_grad, "grad", grad);
  if (grad.empty()) return;
  const Clip operation{unscaled_grad.data(), grad.data(), clip_coef};
  run_elementwise(operation, numel(grad), operation.unscaled_grad, operation.grad);
}

void clip_value(const Exec&, float clip_value, Span<float> grad) {
  ZP_CHECK(is_finite(clip_value) && clip_value > 0.0F, ErrorCode::invalid_argument,
           "clip_value is " + std::to_string(clip_value),
           "the interval [-clip_value, clip_value] would be empty, one point or unbounded",
           "pass a finite number above 0");
  if (grad.empty()) return;
  const ClipValue operation{grad.data(), clip_value};
  run_elementwise(operation, numel(grad), operation.grad);
}

}  // namespace zeroproof::cuda::device
