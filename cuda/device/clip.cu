#include "cuda/device/clip.hpp"

#include "cuda/device/elementwise.cuh"
#include "cuda/device/numels.hpp"
#include "cuda/device/stage.hpp"

namespace zeroproof::cuda::device {

namespace {

struct Clip {
  static constexpr int pack_numel = 4;
  const float* unscaled_grad;  // [numel], may be grad
  float* grad;
  float clip_coef;

  __device__ void one(std::int64_t i) const { grad[i] = unscaled_grad[i] * clip_coef; }

  __device__ void pack(std::int64_t i) const {
    Pack<float> g = load_pack(unscaled_grad + i);
    for (int k = 0; k < pack_numel; ++k) g.v[k] = g.v[k] * clip_coef;
    store_pack(grad + i, g);
  }

  __device__ void finish() const {}
};

}  // namespace

void clip(const Exec&, float clip_coef, Span<const float> unscaled_grad, Span<float> grad) {
  require_same_numel("unscaled_grad", unscaled_grad, "grad", grad);
  if (grad.empty()) return;
  Stage stage;
  const Clip operation{stage.upload(unscaled_grad), stage.output(grad), clip_coef};
  run_elementwise(operation, numel(grad), operation.unscaled_grad, operation.grad);
  stage.download(grad);
}

}  // namespace zeroproof::cuda::device
