#pragma once

#include <cmath>

#include "common/contracts/muon.hpp"
#include "common/contracts/step_scalars.hpp"
#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

/// Momentum of an element of a matrix, and the element that Newton-Schulz gets.
struct MuonMoved {
  float exp_avg;
  float direction;
};

/// The lines "Momentum" of R28 for one element; one rounding per statement (R2). grad already has
/// the sign of a descent. nesterov is the same for all elements.
ZP_HOST_DEVICE inline MuonMoved muon_momentum_element(const StepScalars& scalars, bool nesterov,
                                                      float grad, float exp_avg) {
  const float x = scalars.momentum * exp_avg;
  const float y = scalars.one_minus_dampening * grad;
  const float moved = x + y;
  if (!nesterov) return {moved, moved};
  const float h = scalars.momentum * moved;
  return {moved, y + h};
}

/// The last lines of R28 for one element: its new master. has_decay is the same for all elements;
/// only its product may be skipped.
ZP_HOST_DEVICE inline float muon_element(const StepScalars& scalars, float step_size,
                                         float orthogonal, float master) {
  float u = step_size * orthogonal;
  if (scalars.has_decay != 0U) {
    const float w = scalars.lr_weight_decay * master;
    u = u + w;
  }
  return master - u;
}

/// f of R28 for a matrix, or a part of one. Extents are compared as integers: r / c > 1 only if r >
/// c, and the root of a quotient that is rounded to 1 is 1.
ZP_HOST_DEVICE inline double muon_scale_of(MuonScale scale, std::int64_t rows,
                                           std::int64_t columns) {
  const double quotient = static_cast<double>(rows) / static_cast<double>(columns);
  const double longer = static_cast<double>(rows > columns ? rows : columns);
  switch (scale) {
    case MuonScale::none:
      break;
    case MuonScale::original:
      return rows > columns ? ::sqrt(quotient) : 1.0;
    case MuonScale::spectral:
      return ::sqrt(longer);
    case MuonScale::match_rms_adamw:
      return 0.2 * ::sqrt(longer);
    case MuonScale::unit_rms_norm:
      return ::sqrt(quotient);
  }
  return 1.0;
}

/// step_size of R28. z = scale_factor * f of the matrix or part; lr: the fp32 scalar.
ZP_HOST_DEVICE inline float muon_step_size_of(float lr, double z) {
  return static_cast<float>(static_cast<double>(lr) * z);
}

}  // namespace zeroproof::cuda::device
