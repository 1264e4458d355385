#pragma once
// Factors of a step, rounded as each method of computing them does.

#include "verification/tools/identify/formula.hpp"
#include "verification/tools/identify/hyper.hpp"

namespace zeroproof::verification {

/// beta and 1 - beta of a moving average, fp32.
struct AverageWeights {
  float keep = 0;  ///< beta
  float take = 0;  ///< 1 - beta
};
AverageWeights average_weights(double beta, Betas betas);

/// Factors of the master's update, fp32. Without bias correction the corrections are 1.
struct MasterScalars {
  float root_correction = 1;  ///< s = sqrt(1 - beta2^t)
  float inverse_root = 1;     ///< r = 1 / s
  float correction1 = 1;      ///< 1 - beta1^t
  float correction2 = 1;      ///< 1 - beta2^t
  float step_size = 0;        ///< a = lr / (1 - beta1^t)
  float lr = 0, eps = 0;      ///< as given, rounded
  float weight_decay = 0;     ///< as given, rounded
  float lr_weight_decay = 0;  ///< lr * weight_decay
  float one_less_decay = 1;   ///< k = 1 - lr * weight_decay
  // Of lamb, where f = s/bc1 is not in the update:
  float fold = 1;                 ///< f
  float eps_root = 0;             ///< eps * s
  float folded_weight_decay = 0;  ///< weight_decay / f
  float folded_lr = 0;            ///< lr * f
};

/// Units    hyper.t counts the step that is applied, t >= 1. Errors   none: values outside the
/// range of fp32 become infinity or NaN, as in the libraries.
MasterScalars master_scalars(const DialectHyper& hyper, Corrections corrections);

}  // namespace zeroproof::verification
