#pragma once

#include <cstdint>
#include <optional>

#include "common/contracts/muon.hpp"
#include "common/contracts/update_rule.hpp"

namespace zeroproof::verification {

/// Choices of muon (R28) that a user states; one that is not given may be any known one.
struct GivenMuon {
  std::optional<MomentumFamily> family;
  std::optional<bool> nesterov;
  std::optional<NewtonSchulzSet> coefficients;
  std::optional<int> steps;
  std::optional<MuonScale> scale;
  double scale_factor = 1;
  std::optional<MatrixFactors> factors;
  std::optional<NormFloor> floor;
  std::optional<double> eps;

  bool any() const {
    return family || nesterov || coefficients || steps || scale || scale_factor != 1 || factors ||
           floor || eps;
  }
  /// A norm by these; the norm itself without a floor and its eps.
  double divisor(double norm) const {
    if (!floor || !eps) return norm;
    return *floor == NormFloor::add ? norm + *eps : norm > *eps ? norm : *eps;
  }
};

/// A user's options for one step of a library. The betas are fp64, as users write them: their
/// rounding is part of a library's dialect, and the contract's OptimizerHyper has them rounded
/// already.
struct DialectHyper {
  UpdateRule rule = UpdateRule::adamw;  ///< adamw, adam, sgd, lamb or muon
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::int64_t t = 1;  ///< the step that is applied, counting from 1
  bool bias_correction = true;
  bool amsgrad = false;
  bool maximize = false;
  double momentum = 0, dampening = 0;  ///< sgd; muon: momentum
  bool nesterov = false;               ///< sgd
  GivenMuon muon;
};

}  // namespace zeroproof::verification
