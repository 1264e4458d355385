#pragma once

#include <cstdint>
#include <optional>

#include "common/contracts/muon.hpp"
#include "common/contracts/update_rule.hpp"

namespace zeroproof {

/// Forms of the global norm (R12). A run uses one of them and never mixes.
enum class NormForm : std::uint8_t { chunk1024, exact, inf, one };

/// Hyper-parameters after reading the configuration: beta1 and beta2 are already fp32 (R5).
struct OptimizerHyper {
  UpdateRule rule = UpdateRule::adamw;
  double lr = 1e-3;
  float beta1 = 0.9F;  ///< of the moving average of the gradient
  float beta2 = 0.999F;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool bias_correction = true;  ///< rules with exp_avg_sq
  bool amsgrad = false;         ///< rules with exp_avg_sq: the denominator never shrinks
  bool maximize = false;        ///< every rule: ascend
  double momentum = 0;          ///< sgd, 0: no buffer; muon
  double dampening = 0;         ///< sgd
  bool nesterov = false;        ///< sgd, muon
  MuonSettings muon = {};       ///< muon
  NormForm norm = NormForm::chunk1024;
  std::optional<double> max_norm = 1.0;
  std::optional<double>
      clip_value;  ///< every element of the clipped gradient is in [-clip_value, clip_value]
};

/// All scalars of the kernels of one step, each value rounded once from fp64 to fp32 (R5).
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
  float weight_decay;
  float lr;
  float momentum;
  float one_minus_dampening;
  std::uint32_t
      has_decay;  ///< 0 if the decay coefficient of the rule is 0 in fp64: the term is not evaluated (R6)
  std::uint32_t is_first;  ///< 1 if t = 1: the momentum buffer of sgd starts as the gradient itself
};

inline constexpr int num_step_scalar_words = 15;

/// Scalars of the step that would be applied as number t.
///
/// Units    t: applied steps, counting this one, t >= 1. loss_scale = 2^log2_loss_scale. divisor: number of
///          micro-batches (mean), or tokens (never 0: the caller passes max(1, tokens)).
/// Order    all in fp64, as written in R5; pow by repeated squaring from the right.
/// Exact    bitwise.
/// Errors   invalid_argument if a value is outside the ranges of R5, or options contradict each other (R5).
/// Source   [Adam:alg1], [Adam:bias], [AdamW:alg2]; the mean: [MP:inverse].
using StepScalarsFn = StepScalars(const OptimizerHyper&, std::int64_t t, int log2_loss_scale,
                                  std::int64_t divisor);

}  // namespace zeroproof
