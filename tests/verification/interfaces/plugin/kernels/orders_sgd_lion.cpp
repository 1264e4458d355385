// SGD, its form with an average, and Lion in legal orders of operations other than the contract's:
// ZP_KERNEL selects one; the settings are those that a user configures.

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

const bool contracted = chosen("contracted");  // every sum of a product a fused multiply-add
const bool moves = chosen("moves");            // averages as moves towards the new value
const bool in_double = chosen("in_double");    // everything in fp64, each result rounded once

/// a * x + b * y, in the order of the kind; `adds_up`: b is 1 - a.
float weighed(double a, float x, double b, float y, bool adds_up) {
  const auto kept = static_cast<float>(a), rest = static_cast<float>(b);
  if (in_double) return static_cast<float>(a * x + b * y);
  if (contracted) return std::fma(kept, x, rest * y);
  if (!adds_up) return kept * x + rest * y;
  return rest < 0.5F ? x + rest * (y - x) : y + kept * (x - y);
}

/// x + a * y
float with(float x, double a, float y) {
  if (in_double) return static_cast<float>(x + a * y);
  return contracted ? std::fma(static_cast<float>(a), y, x) : x + static_cast<float>(a) * y;
}

float gradient(const zeroproof_call* call, std::int64_t i) {
  const float g = flag(call, "maximize") ? -data(call, 0)[i] : data(call, 0)[i];
  const double decay = configured(call, "weight_decay");
  return decay == 0 ? g : with(g, decay, data(call, 1)[i]);
}

std::int32_t sgd(const zeroproof_call* call) {
  const double mu = configured(call, "momentum"), lr = configured(call, "lr");
  const double tau = 1 - configured(call, "dampening");
  const bool first = zeroproof_integer(call, "t", 1) == 1, nesterov = flag(call, "nesterov");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    float& buffer = data(call, 2)[i];
    const float g = gradient(call, i);
    float e = g;
    if (mu != 0) {
      buffer = first ? g : weighed(mu, buffer, tau, g, false);
      e = nesterov ? with(g, mu, buffer) : buffer;
    }
    data(call, 1)[i] = with(data(call, 1)[i], -lr, e);
  }
  return 0;
}

std::int32_t sgd_ema(const zeroproof_call* call) {
  const double beta1 = configured(call, "beta1"), lr = configured(call, "lr");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    float& exp_avg = data(call, 2)[i];
    exp_avg = weighed(beta1, exp_avg, 1 - beta1, gradient(call, i), true);
    data(call, 1)[i] = with(data(call, 1)[i], -lr, exp_avg);
  }
  return 0;
}

std::int32_t lion(const zeroproof_call* call) {
  const double beta1 = configured(call, "beta1"), beta2 = configured(call, "beta2"),
               lr = configured(call, "lr");
  const double decay = lr * configured(call, "weight_decay");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    float &master = data(call, 1)[i], &exp_avg = data(call, 2)[i];
    const float g = flag(call, "maximize") ? -data(call, 0)[i] : data(call, 0)[i];
    const float c = weighed(beta1, exp_avg, 1 - beta1, g, true);
    const float sign = c > 0 ? 1.0F : c < 0 ? -1.0F : c;
    if (decay != 0) master = with(master, -decay, master);
    master = with(master, -lr, sign);
    exp_avg = weighed(beta2, exp_avg, 1 - beta2, g, true);
  }
  return 0;
}

constexpr zeroproof_operation table[] = {
    {"sgd_update", sgd}, {"sgd_ema_update", sgd_ema}, {"lion_update", lion}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
