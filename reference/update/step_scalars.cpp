#include <cmath>
#include <string>

#include "common/base/error.hpp"
#include "reference/checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

constexpr double two_to_minus_126 = 0x1p-126;  // the smallest normal fp32
constexpr double two_to_126 =
    0x1p126;  // the largest power of two whose reciprocal is a normal fp32
constexpr double two_to_minus_23 = 0x1p-23;

float fp32(double value) { return static_cast<float>(value); }

/// R5: squaring from the right. std::pow may differ between C libraries, these products cannot;
/// distance from the true power: [Adam:power].
double power(double base, std::int64_t exponent) {
  double result = 1;
  while (true) {
    if (exponent % 2 == 1) result = result * base;
    exponent /= 2;
    if (exponent == 0) return result;
    base = base * base;
  }
}

void check_range(bool inside, const std::string& problem, const std::string& why,
                 const std::string& remedy) {
  ZP_CHECK(inside, ErrorCode::invalid_argument, problem, why, remedy);
}

void check_finite_and_not_negative(const char* what, double value) {
  check_range(std::isfinite(value) && value >= 0, std::string(what) + " is " + text(value),
              "R5 allows finite values of 0 or more", "use one of these");
}

void check_fraction(const char* what, double value) {
  check_range(0 <= value && value <= 1, std::string(what) + " is " + text(value),
              "R5 allows 0 to 1", "use such a value");
}

/// Below 0 a second moment could become negative; near 1 the divisor 1 - beta^t would be too
/// inexact [Adam:power].
void check_beta(const std::string& what, float beta) {
  check_range(beta >= 0 && 1 - double{beta} >= two_to_minus_23, what + " is " + text(beta),
              what + " must not be negative, and 1 - " + what + " must be 2^-23 or more (R5)",
              "choose " + what + " in 0 .. 1 - 2^-23");
}

/// A NaN fails every condition.
void check_hyper(const OptimizerHyper& hyper) {
  check_beta("beta1", hyper.beta1);
  check_beta("beta2", hyper.beta2);
  check_range(std::isfinite(hyper.eps) && double{fp32(hyper.eps)} >= two_to_minus_126,
              "eps is " + text(hyper.eps),
              "in fp32 it must be 2^-126 or more, so that the denominator is never 0",
              "choose a larger eps");
  check_finite_and_not_negative("lr", hyper.lr);
  check_finite_and_not_negative("weight_decay", hyper.weight_decay);
  check_fraction("momentum", hyper.momentum);
  check_fraction("dampening", hyper.dampening);
  if (hyper.max_norm) check_finite_and_not_negative("max_norm", *hyper.max_norm);
  if (hyper.clip_value) {
    const double c = fp32(*hyper.clip_value);
    check_range(std::isfinite(*hyper.clip_value) && std::isfinite(c) && c > 0,
                "clip_value is " + text(*hyper.clip_value), "in fp32 it must be finite and above 0",
                "choose such a value, or none");
  }
}

/// Rejects options that have no effect together.
void check_options(const OptimizerHyper& hyper) {
  const bool is_sgd = traits_of(hyper.rule).momentum();
  const bool has_momentum = is_sgd || traits_of(hyper.rule).matrices;
  check_range(has_momentum || hyper.momentum == 0,
              "momentum is " + text(hyper.momentum) + " and the rule is neither sgd nor muon",
              "the other rules have no momentum", "use the rule sgd or muon, or momentum 0");
  check_range(is_sgd || hyper.dampening == 0,
              "dampening is " + text(hyper.dampening) + " and the rule is not sgd",
              "only sgd dampens its momentum", "use the rule sgd, or dampening 0");
  check_range(!hyper.nesterov || (has_momentum && hyper.momentum > 0 && hyper.dampening == 0),
              "nesterov is on without the rule sgd or muon, momentum above 0 and dampening 0",
              "it is defined for undampened momentum only", "set these, or disable nesterov");
  check_range(!hyper.amsgrad || traits_of(hyper.rule).amsgrad(),
              "amsgrad is on and the rule is neither adamw nor adam",
              "the other rules keep no largest second moment",
              "use adamw or adam, or disable amsgrad");
}

/// The weight of the gradient in a momentum, under the family ema that of an average (R5).
double weight_of_gradient(const OptimizerHyper& hyper) {
  const bool is_average =
      traits_of(hyper.rule).matrices && hyper.muon.family == MomentumFamily::ema;
  return 1 - (is_average ? hyper.momentum : hyper.dampening);
}

/// The coefficient that disables the decay when it is 0.
double decay_coefficient(const OptimizerHyper& hyper) {
  const bool decoupled = traits_of(hyper.rule).decay == DecayKind::decoupled;
  return decoupled ? hyper.lr * hyper.weight_decay : hyper.weight_decay;
}

/// S * divisor, exact in fp64: the divisor has at most 53 bits and S is a power of two.
double scale_times_divisor(int log2_loss_scale, std::int64_t divisor) {
  check_range(1 <= divisor && divisor < (std::int64_t{1} << 53),
              "divisor is " + std::to_string(divisor),
              "it must be exact in fp64, from 1 to below 2^53",
              "use the number of micro-batches or tokens");
  const double product = std::ldexp(static_cast<double>(divisor), log2_loss_scale);
  check_range(two_to_minus_126 <= product && product <= two_to_126,
              "loss scale 2^" + std::to_string(log2_loss_scale) + " times divisor " +
                  std::to_string(divisor) + " is outside 2^-126 .. 2^126",
              "its reciprocal must be a normal fp32", "choose a loss scale nearer to 1");
  return product;
}

}  // namespace

StepScalars step_scalars(const OptimizerHyper& hyper, std::int64_t t, int log2_loss_scale,
                         std::int64_t divisor) {
  check_range(t >= 1, "t is " + std::to_string(t),
              "it is the number of the step about to be applied", "the first step has t = 1");
  check_hyper(hyper);
  check_options(hyper);
  const double scale = scale_times_divisor(log2_loss_scale, divisor);

  // The betas were rounded to fp32 when the configuration was read, so 1 - beta is exact in fp64
  // (R5).
  const double beta1 = hyper.beta1;
  const double beta2 = hyper.beta2;
  const double bias_correction1 = 1 - power(beta1, t);
  const double bias_correction2 = 1 - power(beta2, t);

  StepScalars scalars;
  scalars.inv_scale = fp32(1 / scale);
  scalars.beta1 = fp32(beta1);
  scalars.one_minus_beta1 = fp32(1 - beta1);
  scalars.beta2 = fp32(beta2);
  scalars.one_minus_beta2 = fp32(1 - beta2);
  scalars.sqrt_bias_correction2 = hyper.bias_correction ? fp32(std::sqrt(bias_correction2)) : 1.0F;
  scalars.step_size = hyper.bias_correction ? fp32(hyper.lr / bias_correction1) : fp32(hyper.lr);
  scalars.eps = fp32(hyper.eps);
  scalars.lr_weight_decay = fp32(hyper.lr * hyper.weight_decay);
  scalars.weight_decay = fp32(hyper.weight_decay);
  scalars.lr = fp32(hyper.lr);
  scalars.momentum = fp32(hyper.momentum);
  scalars.one_minus_dampening = fp32(weight_of_gradient(hyper));
  scalars.has_decay =
      decay_coefficient(hyper) != 0 ? 1 : 0;  // decided in fp64: the fp32 value may already be 0
  scalars.is_first = t == 1 ? 1 : 0;
  return scalars;
}

}  // namespace zeroproof::reference
