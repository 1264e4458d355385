#pragma once

#include <cstdint>

#include "common/contracts/update_rule.hpp"

namespace zeroproof::verification {

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
};

}  // namespace zeroproof::verification
