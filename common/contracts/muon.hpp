#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/newton_schulz.hpp"

namespace zeroproof {

struct StepScalars;  // step_scalars.hpp, which has MuonSettings as a member

/// Weights of the momentum of a matrix (R28).
enum class MomentumFamily : std::uint8_t {
  ema,        ///< momentum and 1 - momentum
  heavy_ball  ///< momentum and 1
};

/// The factor of an update of a matrix of r rows and c columns (R28).
enum class MuonScale : std::uint8_t {
  none,             ///< 1
  original,         ///< sqrt(max(1, r / c))
  spectral,         ///< sqrt(max(r, c))
  match_rms_adamw,  ///< 0.2 * sqrt(max(r, c))
  unit_rms_norm     ///< sqrt(r / c)
};

/// Settings of the rule muon besides those of OptimizerHyper that every rule has.
struct MuonSettings {
  MomentumFamily family = MomentumFamily::ema;
  NewtonSchulzOptions newton_schulz = {};
  MuonScale scale = MuonScale::original;
  double scale_factor = 1;  ///< multiplies the scale; finite, > 0

  bool operator==(const MuonSettings&) const = default;
};

struct MuonMomentumOptions {
  bool nesterov = true;
  bool maximize = false;  ///< ascend: the sign of grad is flipped first
};

/// The momentum of a piece of a matrix, in place, and what Newton-Schulz gets of it.
///
/// Shapes   grad, exp_avg, direction: [numel], the same global range, numel >= 0. direction may be grad's memory; no
///          other two overlap.
/// Units    grad: unscaled and clipped.
/// Order    one fp32 rounding per operation, for every element (R28):
///            x = momentum * exp_avg;  y = one_minus_dampening * g;  exp_avg = x + y
///            nesterov:  h = momentum * exp_avg;  direction = y + h;     otherwise:  direction = exp_avg
/// Exact    bitwise across reference, host and device.
/// Special  NaN and infinities propagate.
/// Errors   invalid_argument if the numels differ.
/// Source   [Muon:momentum]; contract R28.
using MuonMomentumFn = void(const Exec&, const MuonMomentumOptions&, const StepScalars&,
                            Span<const float> grad, Span<float> exp_avg, Span<float> direction);

/// The step size of a matrix, or of a part of one: fp32(lr * (scale_factor * f(rows, columns))) in fp64, lr being the
/// fp32 scalar.
///
/// Shapes   rows, columns >= 1, of the undistributed matrix or part.
/// Exact    bitwise.
/// Errors   invalid_argument if scale_factor is not finite or not above 0, or an extent is below 1.
/// Source   [Muon:scale]; contract R28.
using MuonStepSizeFn = float(const MuonSettings&, const StepScalars&, std::int64_t rows,
                             std::int64_t columns);

/// The update of a piece of a matrix, in place.
///
/// Shapes   orthogonal, master: [numel], the same global range, numel >= 0. They do not overlap.
/// Units    orthogonal: elements of the result of Newton-Schulz; step_size: of its part (MuonStepSizeFn).
/// Order    one fp32 rounding per operation, for every element (R28):
///            a = step_size * orthogonal
///            if has_decay:  w = lr_weight_decay * master;  u = a + w      otherwise:  u = a
///            master = master - u
/// Exact    bitwise across reference, host and device.
/// Special  NaN and infinities propagate.
/// Errors   invalid_argument if the numels differ.
/// Source   [Muon:update]; contract R28.
using MuonUpdateFn = void(const Exec&, const StepScalars&, float step_size,
                          Span<const float> orthogonal, Span<float> master);

}  // namespace zeroproof
