#include "cuda/device/adam.hpp"

#include "cuda/device/adam_element.cuh"
#include "cuda/device/elementwise.cuh"
#include "cuda/device/numels.hpp"
#include "cuda/device/stage.hpp"

namespace zeroproof::cuda::device {

namespace {

struct AdamwUpdate {
  static constexpr int pack_numel = 4;
  StepScalars scalars;
  const float* grad;  // [numel], like the three below
  float* master;
  float* exp_avg;
  float* exp_avg_sq;

  __device__ void one(std::int64_t i) const {
    const AdamState next = adamw_element(scalars, grad[i], {master[i], exp_avg[i], exp_avg_sq[i]});
    master[i] = next.master;
    exp_avg[i] = next.exp_avg;
    exp_avg_sq[i] = next.exp_avg_sq;
  }

  __device__ void pack(std::int64_t i) const {
    const Pack<float> g = load_pack(grad + i);
    Pack<float> w = load_pack(master + i);
    Pack<float> m = load_pack(exp_avg + i);
    Pack<float> v = load_pack(exp_avg_sq + i);
    for (int k = 0; k < pack_numel; ++k) {
      const AdamState next = adamw_element(scalars, g.v[k], {w.v[k], m.v[k], v.v[k]});
      w.v[k] = next.master;
      m.v[k] = next.exp_avg;
      v.v[k] = next.exp_avg_sq;
    }
    store_pack(master + i, w);
    store_pack(exp_avg + i, m);
    store_pack(exp_avg_sq + i, v);
  }

  __device__ void finish() const {}
};

}  // namespace

void adamw_update(const Exec&, const StepScalars& scalars, Span<const float> grad, Span<float> master,
                  Span<float> exp_avg, Span<float> exp_avg_sq) {
  require_same_numel("grad", grad, "master", master);
  require_same_numel("grad", grad, "exp_avg", exp_avg);
  require_same_numel("grad", grad, "exp_avg_sq", exp_avg_sq);
  if (grad.empty()) return;
  Stage stage;
  const AdamwUpdate operation{scalars, stage.upload(grad), stage.upload(master), stage.upload(exp_avg),
                              stage.upload(exp_avg_sq)};
  run_elementwise(operation, numel(grad), operation.grad, operation.master, operation.exp_avg,
                  operation.exp_avg_sq);
  stage.download(master);
  stage.download(exp_avg);
  stage.download(exp_avg_sq);
}

}  // namespace zeroproof::cuda::device
