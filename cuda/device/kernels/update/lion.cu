#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/update/lion_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

struct LionUpdate {
  static constexpr int pack_numel = 4;
  StepScalars scalars;
  std::uint32_t sign_mask;  // the sign bit for maximize
  const float* grad;        // [numel], as the two below
  float* master;
  float* exp_avg;

  ZP_DEVICE LionState next(float g, const LionState& old) const {
    return lion_element(scalars, flip_sign(g, sign_mask), old);
  }

  ZP_DEVICE void one(std::int64_t i) const {
    const LionState state = next(grad[i], {master[i], exp_avg[i]});
    master[i] = state.master;
    exp_avg[i] = state.exp_avg;
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<float> g = load_pack(grad + i);
    Pack<float> w = load_pack(master + i);
    Pack<float> m = load_pack(exp_avg + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const LionState state = next(g.v[k], {w.v[k], m.v[k]});
      w.v[k] = state.master;
      m.v[k] = state.exp_avg;
    }
    store_pack(master + i, w);
    store_pack(exp_avg + i, m);
  }
};

}  // namespace

void lion_update(const Exec&, const LionOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  require_same_numel("grad", grad, "master", master);
  require_same_numel("grad", grad, "exp_avg", exp_avg);
  if (grad.empty()) return;
  const LionUpdate update{scalars, options.maximize ? sign_bit : 0U, grad.data(), master.data(),
                          exp_avg.data()};
  run_elementwise(update, numel(grad), update.grad, update.master, update.exp_avg);
}

}  // namespace zeroproof::cuda::device
