// SGD, its form with an average, and Lion with the errors that kernels get when they are transcribed: R6 line by line,
// but for what ZP_KERNEL says.

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

const bool first_step_as_others =
    chosen("first_step_as_others");  // the first buffer is weighed with what was there before
const bool nesterov_ignored = chosen("nesterov_ignored");
const bool moves_by_old_buffer =
    chosen("moves_by_old_buffer");  // the parameter moves by the buffer before this step
const bool decay_after_buffer = chosen("decay_after_buffer");  // the decay does not enter the buffer
const bool average_as_buffer =
    chosen("average_as_buffer");  // exp_avg takes the whole gradient, as a momentum buffer does
const bool betas_swapped = chosen("betas_swapped");  // Lion's two betas
const bool one_average = chosen("one_average");      // Lion keeps the average whose sign it takes
const bool sign_of_zero = chosen("sign_of_zero");    // Lion moves up where its average is zero
const bool odd_lane_sign = chosen("odd_lane_sign");  // a comparison of one lane serves for its neighbour

std::int32_t sgd(const zeroproof_call* call) {
  const float *grad = data(call, 0), mu = real(call, "scalar.momentum");
  const float tau = real(call, "scalar.one_minus_dampening"), lr = real(call, "scalar.lr");
  const float decay = real(call, "scalar.weight_decay");
  float *master = data(call, 1), *buffer = data(call, 2);
  const bool decays = flag(call, "scalar.has_decay"), up = flag(call, "maximize");
  const bool first = flag(call, "scalar.is_first") && !first_step_as_others;
  const bool nesterov = flag(call, "nesterov") && !nesterov_ignored;
  for (std::int64_t i = 0; i < numel(call); ++i) {
    float g = up ? -grad[i] : grad[i];
    const float w = decays ? decay * master[i] : 0;
    if (decays && !decay_after_buffer) g = g + w;
    float e = g;
    if (real(call, "momentum") != 0) {
      const float old = buffer[i];
      buffer[i] = first ? g : mu * old + tau * g;
      e = nesterov ? g + mu * buffer[i] : moves_by_old_buffer ? old : buffer[i];
    }
    if (decays && decay_after_buffer) e = e + w;
    master[i] -= lr * e;
  }
  return 0;
}

std::int32_t sgd_ema(const zeroproof_call* call) {
  const float *grad = data(call, 0), beta1 = real(call, "beta1"), lr = real(call, "scalar.lr");
  const float rest = average_as_buffer ? 1 : real(call, "scalar.one_minus_beta1");
  float *master = data(call, 1), *exp_avg = data(call, 2);
  for (std::int64_t i = 0; i < numel(call); ++i) {
    float g = flag(call, "maximize") ? -grad[i] : grad[i];
    if (flag(call, "scalar.has_decay")) g = g + real(call, "scalar.weight_decay") * master[i];
    exp_avg[i] = beta1 * exp_avg[i] + rest * g;
    master[i] -= lr * exp_avg[i];
  }
  return 0;
}

float sign(float c) {
  if (sign_of_zero) return c >= 0 ? 1.0F : c < 0 ? -1.0F : c;
  return c > 0 ? 1.0F : c < 0 ? -1.0F : c;
}

std::int32_t lion(const zeroproof_call* call) {
  const bool swapped = betas_swapped;
  const float beta1 = real(call, swapped ? "beta2" : "beta1"),
              beta2 = real(call, swapped ? "beta1" : "beta2");
  const float o1 = real(call, swapped ? "scalar.one_minus_beta2" : "scalar.one_minus_beta1");
  const float o2 = real(call, swapped ? "scalar.one_minus_beta1" : "scalar.one_minus_beta2");
  const float *grad = data(call, 0), lr = real(call, "scalar.lr"),
              decay = real(call, "scalar.lr_weight_decay");
  float *master = data(call, 1), *exp_avg = data(call, 2);
  float last = 0;
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const float g = flag(call, "maximize") ? -grad[i] : grad[i];
    const float c = beta1 * exp_avg[i] + o1 * g;
    const float direction = odd_lane_sign && i % 2 == 1 ? last : sign(c);
    last = direction;
    const float a = lr * direction;
    master[i] -= flag(call, "scalar.has_decay") ? a + decay * master[i] : a;
    exp_avg[i] = one_average ? c : beta2 * exp_avg[i] + o2 * g;
  }
  return 0;
}

constexpr zeroproof_operation table[] = {
    {"sgd_update", sgd}, {"sgd_ema_update", sgd_ema}, {"lion_update", lion}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
