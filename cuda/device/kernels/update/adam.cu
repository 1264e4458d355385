#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/update/adam_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

template <Decay decay, bool amsgrad>
struct AdamUpdate {
  static constexpr int pack_numel = 4;
  StepScalars scalars;
  std::uint32_t sign_mask;  // the sign bit for maximize
  const float* grad;        // [numel], as the three below
  float* master;
  float* exp_avg;
  float* exp_avg_sq;
  float* max_exp_avg_sq;  // [numel] with amsgrad, else null

  ZP_DEVICE AdamState next(float g, const AdamState& old) const {
    return adam_element<decay, amsgrad>(scalars, flip_sign(g, sign_mask), old);
  }

  ZP_DEVICE void one(std::int64_t i) const {
    const float largest = amsgrad ? max_exp_avg_sq[i] : 0.0F;
    const AdamState state = next(grad[i], {master[i], exp_avg[i], exp_avg_sq[i], largest});
    master[i] = state.master;
    exp_avg[i] = state.exp_avg;
    exp_avg_sq[i] = state.exp_avg_sq;
    if (amsgrad) max_exp_avg_sq[i] = state.max_exp_avg_sq;
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<float> g = load_pack(grad + i);
    Pack<float> w = load_pack(master + i);
    Pack<float> m = load_pack(exp_avg + i);
    Pack<float> v = load_pack(exp_avg_sq + i);
    Pack<float> largest{};
    if (amsgrad) largest = load_pack(max_exp_avg_sq + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const AdamState state = next(g.v[k], {w.v[k], m.v[k], v.v[k], largest.v[k]});
      w.v[k] = state.master;
      m.v[k] = state.exp_avg;
      v.v[k] = state.exp_avg_sq;
      largest.v[k] = state.max_exp_avg_sq;
    }
    store_pack(master + i, w);
    store_pack(exp_avg + i, m);
    store_pack(exp_avg_sq + i, v);
    if (amsgrad) store_pack(max_exp_avg_sq + i, largest);
  }
};

/// The operands of one call.
struct AdamOperands {
  Span<const float> grad;
  Span<float> master, exp_avg, exp_avg_sq, max_exp_avg_sq;
};

template <Decay decay, bool amsgrad>
void run(std::uint32_t sign_mask, const StepScalars& scalars, const AdamOperands& on) {
  const AdamUpdate<decay, amsgrad> update{scalars,
                                          sign_mask,
                                          on.grad.data(),
                                          on.master.data(),
                                          on.exp_avg.data(),
                                          on.exp_avg_sq.data(),
                                          on.max_exp_avg_sq.data()};
  if constexpr (amsgrad) {
    run_elementwise(update, numel(on.grad), update.grad, update.master, update.exp_avg,
                    update.exp_avg_sq, update.max_exp_avg_sq);
  } else {
    run_elementwise(update, numel(on.grad), update.grad, update.master, update.exp_avg,
                    update.exp_avg_sq);
  }
}

template <Decay decay>
void check_and_run(const AdamOptions& options, const StepScalars& scalars, const AdamOperands& on) {
  require_same_numel("grad", on.grad, "master", on.master);
  require_same_numel("grad", on.grad, "exp_avg", on.exp_avg);
  require_same_numel("grad", on.grad, "exp_avg_sq", on.exp_avg_sq);
  require_numel_if(options.amsgrad, "amsgrad", "grad", on.grad, "max_exp_avg_sq",
                   on.max_exp_avg_sq);
  if (on.grad.empty()) return;
  const std::uint32_t sign_mask = options.maximize ? sign_bit : 0U;
  if (options.amsgrad) {
    run<decay, true>(sign_mask, scalars, on);
  } else {
    run<decay, false>(sign_mask, scalars, on);
  }
}

}  // namespace

void adamw_update(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                  Span<const float> grad, Span<float> master, Span<float> exp_avg,
                  Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  check_and_run<Decay::decoupled>(options, scalars,
                                  {grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq});
}

void adam_update(const Exec&, const AdamOptions& options, const StepScalars& scalars,
                 Span<const float> grad, Span<float> master, Span<float> exp_avg,
                 Span<float> exp_avg_sq, Span<float> max_exp_avg_sq) {
  check_and_run<Decay::in_gradient>(options, scalars,
                                    {grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq});
}

}  // namespace zeroproof::cuda::device
