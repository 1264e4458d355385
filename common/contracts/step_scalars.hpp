#pragma once

#include <cstdint>
#include <optional>

namespace zeroproof {

/// Hyper-parameters of AdamW as they are after the configuration was read: beta1 and beta2 are already fp32
/// (R5).
struct AdamwHyper {
  double lr = 1e-3;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool bias_correction = true;
  std::optional<double> max_norm = 1.0;
};

/// Everything the kernels of one step need, each value rounded once from fp64 to fp32 (R5).
struct StepScalars {
  float inv_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float sqrt_bias_correction2;
  float step_size;
  float eps;
  float lr_weight_decay;
  std::uint32_t has_decay;  ///< 0 if lr * weight_decay is 0 in fp64: the decay is then not evaluated (R6)
};

/// Scalars of the step that would be applied as number t.
///
/// Units    t: applied steps, counting this one, t >= 1. loss_scale = 2^log2_loss_scale. divisor: number of
///          micro-batches (mean), or tokens.
/// Order    all in fp64, as written in R5; pow by repeated squaring from the right.
/// Exact    bitwise.
/// Errors   invalid_argument when one of the ranges of R5 is left.
using StepScalarsFn = StepScalars(const AdamwHyper&, std::int64_t t, int log2_loss_scale,
                                  std::int64_t divisor);

}  // namespace zeroproof
