// AdamW and Adam in legal orders of operations other than the contract's: ZP_KERNEL selects one;
// the settings are those that a user configures.

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

const bool contracted =
    chosen("contracted");  // the contract's lines, every sum of a product a fused multiply-add
const bool moves = chosen("moves");  // averages as moves towards the new value
const bool moments_corrected =
    chosen("moments_corrected");  // both moments divided by their corrections first
const bool corrections_merged =
    chosen("corrections_merged");                // both corrections in one step size and one eps
const bool rate_first = chosen("rate_first");    // (rate * m) / d
const bool decay_first = chosen("decay_first");  // the parameter decays before the step
const bool decay_as_factor = chosen("decay_as_factor");  // p * (1 - lr * wd)
const bool decay_last =
    chosen("decay_last");  // the decay of the old parameter, subtracted after the step
const bool decay_in_step = chosen("decay_in_step");  // lr * (m / d + wd * p)
const bool in_double = chosen("in_double");          // everything in fp64, each result rounded once
const bool backwards =
    chosen("backwards");  // from the last element to the first, squares as (o2 * g) * g

/// The configured values, in fp64, and values derived from them.
struct Settings {
  explicit Settings(const zeroproof_call* call) {
    beta1 = configured(call, "beta1");
    beta2 = configured(call, "beta2");
    lr = configured(call, "lr");
    eps = configured(call, "eps");
    decay = configured(call, "weight_decay");
    const auto t = static_cast<double>(zeroproof_integer(call, "t", 1));
    const bool corrects = flag(call, "bias_correction");
    correction1 = corrects ? 1 - std::pow(beta1, t) : 1;
    correction2 = corrects ? 1 - std::pow(beta2, t) : 1;
  }
  double beta1, beta2, lr, eps, decay, correction1, correction2;
};

float average(double weight, float old, float g) {
  const auto kept = static_cast<float>(weight), rest = static_cast<float>(1 - weight);
  if (contracted) return std::fma(kept, old, rest * g);
  if (moves) return rest < 0.5F ? old + rest * (g - old) : g + kept * (old - g);
  return kept * old + rest * g;
}

float square_average(double weight, float old, float g) {
  const auto kept = static_cast<float>(weight), rest = static_cast<float>(1 - weight);
  if (contracted) return std::fma(rest * g, g, kept * old);
  if (backwards) return kept * old + (rest * g) * g;
  return kept * old + rest * (g * g);
}

/// The amount subtracted from the parameter besides the decay.
float adaptive_step(const Settings& s, float m, float x) {
  const auto rate = static_cast<float>(s.lr / s.correction1),
             root = static_cast<float>(std::sqrt(s.correction2));
  const auto eps = static_cast<float>(s.eps);
  if (moments_corrected) {
    const auto c1 = static_cast<float>(s.correction1), c2 = static_cast<float>(s.correction2);
    return static_cast<float>(s.lr) * ((m / c1) / (std::sqrt(x / c2) + eps));
  }
  if (corrections_merged) {
    const auto merged = static_cast<float>(s.lr * std::sqrt(s.correction2) / s.correction1);
    return merged * m / (std::sqrt(x) + static_cast<float>(s.eps * std::sqrt(s.correction2)));
  }
  const float d = std::sqrt(x) / root + eps;
  return rate_first || decay_as_factor ? (rate * m) / d : rate * (m / d);
}

float moved(const Settings& s, float p, float m, float x) {
  const double decay = s.decay * s.lr;
  if (decay == 0) return p - adaptive_step(s, m, x);
  const auto w = static_cast<float>(decay);
  if (contracted) return p - std::fma(w, p, adaptive_step(s, m, x));
  if (decay_first) return (p - w * p) - adaptive_step(s, m, x);
  if (decay_as_factor) return p * static_cast<float>(1 - decay) - adaptive_step(s, m, x);
  if (decay_last) return (p - adaptive_step(s, m, x)) - w * p;
  if (decay_in_step) {
    const float d =
        std::sqrt(x) / static_cast<float>(std::sqrt(s.correction2)) + static_cast<float>(s.eps);
    const float direction =
        (m / static_cast<float>(s.correction1)) / d + static_cast<float>(s.decay) * p;
    return p - static_cast<float>(s.lr) * direction;
  }
  return p - (adaptive_step(s, m, x) + w * p);
}

struct Element {
  float &master, &exp_avg, &exp_avg_sq, &largest;
};

void update_in_double(const Settings& s, double g, bool coupled, bool amsgrad, const Element& at) {
  if (coupled) g += s.decay * at.master;
  const double m = s.beta1 * at.exp_avg + (1 - s.beta1) * g;
  double x = s.beta2 * at.exp_avg_sq + (1 - s.beta2) * g * g;
  at.exp_avg = static_cast<float>(m);
  at.exp_avg_sq = static_cast<float>(x);
  if (amsgrad) x = at.largest = at.largest >= at.exp_avg_sq ? at.largest : at.exp_avg_sq;
  const double step = s.lr / s.correction1 * m / (std::sqrt(x / s.correction2) + s.eps);
  at.master = static_cast<float>(at.master - step - (coupled ? 0 : s.lr * s.decay * at.master));
}

std::int32_t update(const zeroproof_call* call, bool coupled) {
  const Settings s(call);
  const bool amsgrad = flag(call, "amsgrad"), up = flag(call, "maximize");
  const std::int64_t all = numel(call);
  for (std::int64_t k = 0; k < all; ++k) {
    const std::int64_t i = backwards ? all - 1 - k : k;
    const Element at = {data(call, 1)[i], data(call, 2)[i], data(call, 3)[i], data(call, 4)[i]};
    float g = up ? -data(call, 0)[i] : data(call, 0)[i];
    if (in_double) {
      update_in_double(s, g, coupled && s.decay != 0, amsgrad, at);
      continue;
    }
    if (coupled && s.decay != 0) {
      const auto w = static_cast<float>(s.decay);
      g = contracted ? std::fma(w, at.master, g) : g + w * at.master;
    }
    at.exp_avg = average(s.beta1, at.exp_avg, g);
    at.exp_avg_sq = square_average(s.beta2, at.exp_avg_sq, g);
    float x = at.exp_avg_sq;
    if (amsgrad) x = at.largest = at.largest >= x ? at.largest : x;
    at.master =
        coupled ? at.master - adaptive_step(s, at.exp_avg, x) : moved(s, at.master, at.exp_avg, x);
  }
  return 0;
}

std::int32_t adamw(const zeroproof_call* call) { return update(call, false); }
std::int32_t adam(const zeroproof_call* call) { return update(call, true); }

constexpr zeroproof_operation table[] = {{"adamw_update", adamw}, {"adam_update", adam}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
