#include <cmath>
#include <string>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

float clip_coef(double grad_norm, std::optional<double> max_norm) {
  if (!max_norm) return 1.0F;
  ZP_CHECK(std::isfinite(*max_norm) && *max_norm >= 0, ErrorCode::invalid_argument,
           "max_norm is " + std::to_string(*max_norm),
           "a negative limit would reverse every gradient",
           "use a positive number, or 0 for no clipping");
  if (*max_norm == 0) return 1.0F;
  const double q = *max_norm / (grad_norm + 1e-6);
  if (std::isnan(q)) return static_cast<float>(q);
  return static_cast<float>(q < 1.0 ? q : 1.0);
}

void clip(const Exec& exec, float clip_coef, Span<const float> unscaled_grad, Span<float> grad) {
  require_same_numel("clip", "unscaled_grad", unscaled_grad.size(), "grad", grad.size());
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_blocks(exec, numel(grad), [&](std::int64_t begin, std::int64_t end) {
    kernels.scale(clip_coef, unscaled_grad.data() + begin, grad.data() + begin, end - begin);
  });
}

void clip_value(const Exec& exec, float clip_value, Span<float> grad) {
  ZP_CHECK(std::isfinite(clip_value) && clip_value > 0, ErrorCode::invalid_argument,
           "clip_value is " + std::to_string(clip_value),
           "every element is clipped to [-clip_value, clip_value]",
           "use a positive finite number, or do not clip by value");
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_blocks(exec, numel(grad), [&](std::int64_t begin, std::int64_t end) {
    kernels.clip_value(clip_value, grad.data() + begin, end - begin);
  });
}

}  // namespace zeroproof::cuda::host
