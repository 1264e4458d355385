// Unscaling, clipping, norm and loss scaler with the errors that kernels get when they are transcribed; right but for
// what
// ZP_KERNEL says.

#include <algorithm>

#include "tests/verification/interfaces/plugin/kernels/kernel.hpp"

namespace {

using namespace kernels;

const bool found_before = chosen("found_before");      // unscale looks for infinities before it multiplies
const bool found_nan_only = chosen("found_nan_only");  // unscale takes infinities for numbers
const bool found_in_last_block = chosen("found_in_last_block");  // every block of 256 overwrites the flag
const bool reciprocal_rounded = chosen("reciprocal_rounded");    // unscale divides by a loss scale of 16 bits
const bool in_place_forgotten =
    chosen("in_place_forgotten");                // clip of one buffer returns without multiplying
const bool nan_clipped = chosen("nan_clipped");  // clip_value by minimum and maximum, which lose a NaN
const bool norm_without_eps = chosen("norm_without_eps");  // clip_coef without its 1e-6
const bool norm_in_float = chosen("norm_in_float");        // clip_coef in fp32
const bool power_overflows =
    chosen("power_overflows");                     // the norm's powers of numbers that nothing scaled down
const bool sum_in_float = chosen("sum_in_float");  // the norm's sum in fp32
const bool sum_without_tail = chosen("sum_without_tail");  // the norm of whole vectors of 8
const bool floor_ignored = chosen("floor_ignored");        // the scaler backs off below its least scale
const bool tracker_kept = chosen("tracker_kept");  // an overflow does not start the count of good steps anew

bool is_found(float x) { return found_nan_only ? std::isnan(x) : !std::isfinite(x); }

std::int32_t unscale(const zeroproof_call* call) {
  const float* source = data(call, 0);
  float* target = data(call, 1);
  const float given = real(call, "inv_scale");
  const float factor = reciprocal_rounded ? 1 / static_cast<float>(static_cast<_Float16>(1 / given)) : given;
  bool found = false;
  for (std::int64_t i = 0; i < numel(call); ++i) {
    if (found_in_last_block && i % 256 == 0) found = false;
    const float product = source[i] * factor;
    found = is_found(found_before ? source[i] : product) || found;
    target[i] = product;
  }
  data<std::uint32_t>(call, 2)[0] = found ? 1 : 0;
  return 0;
}

std::int32_t clip(const zeroproof_call* call) {
  const float *source = data(call, 0), coef = real(call, "clip_coef");
  float* target = data(call, 1);
  if (in_place_forgotten && source == target) return 0;
  for (std::int64_t i = 0; i < numel(call); ++i) target[i] = source[i] * coef;
  return 0;
}

std::int32_t clip_value(const zeroproof_call* call) {
  float *grad = data(call, 0), limit = real(call, "clip_value");
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const float g = grad[i];
    const float compared = g > limit ? limit : g < -limit ? -limit : g;
    grad[i] = nan_clipped ? std::fmax(std::fmin(g, limit), -limit) : compared;
  }
  return 0;
}

std::int32_t clip_coef(const zeroproof_call* call) {
  const double *norm = data<double>(call, 0), *limit = data<double>(call, 1);
  const std::uint32_t* has = data<std::uint32_t>(call, 2);
  for (std::int64_t i = 0; i < numel(call); ++i) {
    const bool refused = has[i] != 0 && !(limit[i] >= 0 && std::isfinite(limit[i]));
    double q = limit[i] / (norm[i] + (norm_without_eps ? 0 : 1e-6));
    if (norm_in_float) q = static_cast<float>(limit[i]) / (static_cast<float>(norm[i]) + 1e-6F);
    const bool clips = has[i] != 0 && limit[i] != 0;
    const double coef = !clips ? 1 : std::isnan(norm[i]) ? NAN : q < 1 ? q : 1;
    data(call, 3)[i] = refused ? 0 : static_cast<float>(coef);
    data<std::uint32_t>(call, 4)[i] = refused ? 1 : 0;
  }
  return 0;
}

std::int32_t grad_norm_p(const zeroproof_call* call) {
  const float* grad = data(call, 0);
  const std::int64_t all = numel(call), end = sum_without_tail ? all / 8 * 8 : all;
  const double p = configured(call, "p");
  double largest = 0;
  for (std::int64_t i = 0; i < all; ++i)
    largest = std::isnan(grad[i]) ? NAN : std::max(largest, std::fabs(double{grad[i]}));
  bool has_nan = false;
  for (std::int64_t i = 0; i < all; ++i) has_nan = has_nan || std::isnan(grad[i]);
  double* norm = data<double>(call, 1);
  if (has_nan || !std::isfinite(largest) || largest == 0) {
    *norm = has_nan ? NAN : largest;
    return 0;
  }
  const double unit = power_overflows ? 1 : largest;
  double sum = 0;
  float short_sum = 0;
  for (std::int64_t i = 0; i < end; ++i) {
    const double power = std::pow(std::fabs(double{grad[i]}) / unit, p);
    sum += power;
    short_sum += static_cast<float>(power);
  }
  *norm = unit * std::pow(sum_in_float ? double{short_sum} : sum, 1 / p);
  return 0;
}

/// The words of a configuration and of a state, in their order.
struct Config {
  std::int32_t kind, initial, growth, backoff, least, most, interval, hysteresis, refill;
};
struct State {
  std::int32_t scale, tracker, left;
};

bool refuses(const Config& c, const State& s) {
  return c.interval < 1 || c.hysteresis < 1 || c.growth < 1 || c.backoff < 1 || c.least > c.initial ||
         c.initial > c.most || s.tracker < 0 || s.left < 0 || s.tracker == INT32_MAX;
}

State scaled(const Config& c, State s, bool overflow) {
  if (c.kind != 2) return s;
  if (overflow) {
    if (!tracker_kept) s.tracker = 0;
    s.left = std::max(s.left - 1, 0);
    if (s.left == 0) s.scale = floor_ignored ? s.scale - c.backoff : std::max(s.scale - c.backoff, c.least);
    return s;
  }
  ++s.tracker;
  if (c.refill == 1) s.left = c.hysteresis;
  if (s.tracker != c.interval) return s;
  return {s.scale + c.growth > c.most ? s.scale : s.scale + c.growth, 0, c.hysteresis};
}

std::int32_t loss_scaler(const zeroproof_call* call) {
  for (std::int64_t i = 0; i < call->operands[2].tensor.shape[0]; ++i) {
    const Config& config = data<Config>(call, 0)[i];
    const State& before = data<State>(call, 1)[i];
    const bool refused = refuses(config, before);
    data<State>(call, 3)[i] = refused ? before : scaled(config, before, data<std::uint32_t>(call, 2)[i] != 0);
    data<std::uint32_t>(call, 4)[i] = refused ? 1 : 0;
  }
  return 0;
}

constexpr zeroproof_operation table[] = {{"unscale", unscale},         {"clip", clip},
                                         {"clip_value", clip_value},   {"clip_coef", clip_coef},
                                         {"grad_norm_p", grad_norm_p}, {"loss_scaler_update", loss_scaler}};

}  // namespace

extern "C" const zeroproof_plugin* zeroproof_get_plugin(void) { return library(table); }
