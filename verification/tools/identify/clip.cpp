#include "verification/tools/identify/clip.hpp"

#include "common/base/error.hpp"

namespace zeroproof::verification {
namespace {

float rounded(double value) { return static_cast<float>(value); }

/// A NaN stays NaN, as in torch.clamp.
float at_most(float x, float most) { return x > most ? most : x; }
float at_least(float x, float least) { return x < least ? least : x; }

}  // namespace

const std::vector<ClipDialect>& clip_dialects() {
  static const std::vector<ClipDialect> all = {
      {"clip-torch", "PyTorch 2.15.0, clip_grad_norm_",
       "g *= min(1, max_norm * (1/(N + 1e-6))), all fp32: a number over a tensor is a reciprocal "
       "and a "
       "product.",
       Evidence::compared, ClipForm::torch},
      {"clip-megatron", "Megatron-LM",
       "k = max_norm / (N + 1e-6) in fp64 from an fp32 N; if k < 1, g *= k rounded to fp32.",
       Evidence::read, ClipForm::megatron},
      {"clip-deepspeed", "DeepSpeed",
       "g *= 1/(S * max(1, (N/S + 1e-6)/max_norm)), all fp32, N of the scaled gradients: unscale "
       "and clip "
       "are one "
       "factor, taken by reciprocal.",
       Evidence::read, ClipForm::deepspeed}};
  return all;
}

float clip_factor(ClipForm form, float norm, double max_norm, double loss_scale) {
  const float epsilon = rounded(1e-6);
  if (form == ClipForm::megatron) {
    const double factor = max_norm / (double{norm} + 1e-6);
    return factor < 1 ? rounded(factor) : 1;
  }
  if (form == ClipForm::torch) {
    const float inverse = 1 / (norm + epsilon);
    return at_most(inverse * rounded(max_norm), 1);
  }
  const float scale = rounded(loss_scale);
  const float over = at_least((norm / scale + epsilon) / rounded(max_norm), 1);
  return 1 / (over * scale);
}

const std::vector<ScalerDialect>& scaler_dialects() {
  static const std::vector<ScalerDialect> all = {
      {"scaler-torch", "PyTorch, Megatron-LM",
       "Doubles after every window steps without an overflow, "
       "halves in a step with one; the contract's scaler does the "
       "same.",
       Evidence::compared, 0},
      {"scaler-deepspeed", "DeepSpeed 0.19.8",
       "Halves in a step with an overflow; from the beginning, "
       "and from each overflow, it doubles after window + 1 steps "
       "without one, and then after every window.",
       Evidence::compared, 1}};
  return all;
}

std::vector<int> loss_scales(const ScalerDialect& dialect, int first, int window,
                             const std::vector<bool>& overflows) {
  ZP_CHECK(window >= 1, ErrorCode::invalid_argument, "the window is " + std::to_string(window),
           "a scaler grows after so many steps", "use 1 or more");
  std::vector<int> scales;
  int good = -dialect.extra_steps;
  for (const bool overflow : overflows) {
    if (overflow) {
      --first;
      good = -dialect.extra_steps;
    } else if (++good == window) {
      ++first;
      good = 0;
    }
    scales.push_back(first);
  }
  return scales;
}

}  // namespace zeroproof::verification
