#pragma once
// Clipping by the global norm in libraries, and the growth of their loss scalers.

#include <string>
#include <vector>

#include "verification/tools/identify/dialect.hpp"

namespace zeroproof::verification {

enum class ClipForm : std::uint8_t {
  torch,     ///< min(1, max_norm * (1/(N + 1e-6))), fp32, by reciprocal
  megatron,  ///< max_norm / (N + 1e-6) in fp64 if that is below 1
  deepspeed  ///< 1/(S * max(1, (N/S + 1e-6)/max_norm)), fp32: unscale and clip in one factor
};

struct ClipDialect {
  std::string name, library, text;
  Evidence evidence = Evidence::read;
  ClipForm form = ClipForm::torch;
};
const std::vector<ClipDialect>& clip_dialects();

/// The factor of every gradient, fp32.
/// Units    norm: of the gradients as they are in memory: unscaled for torch and megatron, times loss_scale for
///          deepspeed, whose factor unscales them too. loss_scale is used by deepspeed alone.
/// Errors   none.
float clip_factor(ClipForm form, float norm, double max_norm, double loss_scale);

/// A dynamic loss scaler: halves after an overflow, and doubles after a number of steps without
/// one.
struct ScalerDialect {
  std::string name, library, text;
  Evidence evidence = Evidence::read;
  int extra_steps =
      0;  ///< steps beyond the window before the first growth, and after each overflow
};
const std::vector<ScalerDialect>& scaler_dialects();

/// log2 of the loss scale after each step of a sequence, from 2^first, without hysteresis or
/// bounds.
/// Shapes   one entry of `overflows` for every step; as many results.
/// Errors   invalid_argument if window is below 1.
std::vector<int> loss_scales(const ScalerDialect& dialect, int first, int window,
                             const std::vector<bool>& overflows);

}  // namespace zeroproof::verification
