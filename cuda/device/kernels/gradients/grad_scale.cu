#include "cuda/device/kernels/base/device_value.hpp"
#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

struct Unscale {
  static constexpr int pack_numel = 4;
  const float* grad_sum;  // [numel], may be unscaled_grad
  float* unscaled_grad;
  unsigned* found_inf;  // one word for the whole launch
  float inv_scale;
  unsigned found = 0;  // flag of this thread

  ZP_DEVICE float product(float g) {
    const float unscaled = g * inv_scale;
    found |= is_finite(unscaled) ? 0U : 1U;
    return unscaled;
  }

  ZP_DEVICE void one(std::int64_t i) { unscaled_grad[i] = product(grad_sum[i]); }

  ZP_DEVICE void pack(std::int64_t i) {
    Pack<float> g = load_pack(grad_sum + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) g.v[k] = product(g.v[k]);
    store_pack(unscaled_grad + i, g);
  }

  ZP_DEVICE void finish() const {
    if (found != 0U) atomicOr(found_inf, 1U);  // an OR of flags is independent of order (R14)
  }
};

}  // namespace

bool unscale(const Exec&, float inv_scale, Span<const float> grad_sum, Span<float> unscaled_grad) {
  require_same_numel("grad_sum", grad_sum, "unscaled_grad", unscaled_grad);
  if (grad_sum.empty()) return false;
  const DeviceValue<unsigned> found_inf(0);
  const Unscale operation{grad_sum.data(), unscaled_grad.data(), found_inf.get(), inv_scale};
  run_elementwise(operation, numel(grad_sum), operation.grad_sum, operation.unscaled_grad);
  return found_inf.fetch() != 0;
}

}  // namespace zeroproof::cuda::device
