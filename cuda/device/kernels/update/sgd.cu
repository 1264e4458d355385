#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/numels.hpp"
#include "cuda/device/kernels/update/sgd_element.cuh"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

namespace {

template <SgdForm form>
struct SgdUpdate {
  static constexpr int pack_numel = 4;
  static constexpr bool has_buffer = form != SgdForm::plain;
  StepScalars scalars;
  std::uint32_t sign_mask;  // the sign bit for maximize
  bool reads_buffer;        // false in the first step with momentum
  const float* grad;        // [numel], as the one below
  float* master;
  float* buffer;  // [numel], or null in the plain form

  ZP_DEVICE SgdState next(float g, const SgdState& old) const {
    return sgd_element<form>(scalars, flip_sign(g, sign_mask), old);
  }

  ZP_DEVICE void one(std::int64_t i) const {
    const float old_buffer = has_buffer && reads_buffer ? buffer[i] : 0.0F;
    const SgdState state = next(grad[i], {master[i], old_buffer});
    master[i] = state.master;
    if (has_buffer) buffer[i] = state.buffer;
  }

  ZP_DEVICE void pack(std::int64_t i) const {
    const Pack<float> g = load_pack(grad + i);
    Pack<float> w = load_pack(master + i);
    Pack<float> b{};
    if (has_buffer && reads_buffer) b = load_pack(buffer + i);
    ZP_UNROLL
    for (int k = 0; k < pack_numel; ++k) {
      const SgdState state = next(g.v[k], {w.v[k], b.v[k]});
      w.v[k] = state.master;
      b.v[k] = state.buffer;
    }
    store_pack(master + i, w);
    if (has_buffer) store_pack(buffer + i, b);
  }
};

/// buffer: [numel], or empty in the plain form.
template <SgdForm form>
void run(bool maximize, const StepScalars& scalars, Span<const float> grad, Span<float> master,
         Span<float> buffer) {
  const SgdUpdate<form> update{scalars,
                               maximize ? sign_bit : 0U,
                               form == SgdForm::ema || scalars.is_first == 0U,
                               grad.data(),
                               master.data(),
                               buffer.data()};
  if constexpr (SgdUpdate<form>::has_buffer) {
    run_elementwise(update, numel(grad), update.grad, update.master, update.buffer);
  } else {
    run_elementwise(update, numel(grad), update.grad, update.master);
  }
}

}  // namespace

void sgd_update(const Exec&, const SgdOptions& options, const StepScalars& scalars,
                Span<const float> grad, Span<float> master, Span<float> momentum_buffer) {
  require_same_numel("grad", grad, "master", master);
  require_numel_if(options.momentum, "momentum", "grad", grad, "momentum_buffer", momentum_buffer);
  ZP_CHECK(options.momentum || !options.nesterov, ErrorCode::invalid_argument,
           "nesterov is set without momentum", "it uses the momentum buffer",
           "set momentum too, or omit nesterov");
  if (grad.empty()) return;
  if (options.nesterov) {
    run<SgdForm::nesterov>(options.maximize, scalars, grad, master, momentum_buffer);
  } else if (options.momentum) {
    run<SgdForm::momentum>(options.maximize, scalars, grad, master, momentum_buffer);
  } else {
    run<SgdForm::plain>(options.maximize, scalars, grad, master, momentum_buffer);
  }
}

void sgd_ema_update(const Exec&, const SgdEmaOptions& options, const StepScalars& scalars,
                    Span<const float> grad, Span<float> master, Span<float> exp_avg) {
  require_same_numel("grad", grad, "master", master);
  require_same_numel("grad", grad, "exp_avg", exp_avg);
  if (grad.empty()) return;
  run<SgdForm::ema>(options.maximize, scalars, grad, master, exp_avg);
}

}  // namespace zeroproof::cuda::device
