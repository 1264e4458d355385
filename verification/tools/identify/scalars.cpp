#include "verification/tools/identify/scalars.hpp"

#include <cmath>

namespace zeroproof::verification {
namespace {

float fp32(double value) { return static_cast<float>(value); }

/// beta^t as a running product, rounded to fp32 in every step. It ends when another factor changes
/// nothing.
float running_product(float beta, std::int64_t t) {
  float product = 1;
  for (std::int64_t i = 0; i < t; ++i) {
    const float next = product * beta;
    if (next == product) break;
    product = next;
  }
  return product;
}

/// R5 of the contract: squaring from the right, in fp64.
double product_power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base = base * base) {
    if (exponent % 2 == 1) result = result * base;
  }
  return result;
}

void add_running(const DialectHyper& hyper, MasterScalars& s) {
  if (hyper.bias_correction) {
    s.correction1 = 1 - running_product(fp32(hyper.beta1), hyper.t);
    s.correction2 = 1 - running_product(fp32(hyper.beta2), hyper.t);
  }
  s.root_correction = std::sqrt(s.correction2);
  s.inverse_root = 1 / s.root_correction;
  s.step_size = s.lr / s.correction1;
  s.lr_weight_decay = s.lr * s.weight_decay;
  s.one_less_decay = 1 - s.lr_weight_decay;
}

}  // namespace

AverageWeights average_weights(double beta, Betas betas) {
  if (betas == Betas::fp64) return {fp32(beta), fp32(1 - beta)};
  return {fp32(beta), 1 - fp32(beta)};
}

MasterScalars master_scalars(const DialectHyper& hyper, Corrections corrections) {
  MasterScalars s;
  s.lr = fp32(hyper.lr);
  s.eps = fp32(hyper.eps);
  s.weight_decay = fp32(hyper.weight_decay);
  if (corrections == Corrections::running) {
    add_running(hyper, s);
    return s;
  }
  const bool widened = corrections != Corrections::fp64;
  const double beta1 = widened ? double{fp32(hyper.beta1)} : hyper.beta1;
  const double beta2 = widened ? double{fp32(hyper.beta2)} : hyper.beta2;
  double correction1 = 1, correction2 = 1;
  if (hyper.bias_correction) {
    const bool products = corrections == Corrections::widened;
    const auto power = [&](double beta) {
      if (corrections == Corrections::single)
        return double{std::pow(fp32(beta), static_cast<float>(hyper.t))};
      return products ? product_power(beta, hyper.t) : std::pow(beta, static_cast<double>(hyper.t));
    };
    correction1 = 1 - power(beta1);
    correction2 = 1 - power(beta2);
  }
  s.correction1 = fp32(correction1);
  s.correction2 = fp32(correction2);
  if (corrections == Corrections::stored || corrections == Corrections::single) {
    correction1 = s.correction1;
    correction2 = s.correction2;
  }
  s.root_correction = fp32(std::sqrt(correction2));
  s.inverse_root = fp32(1 / std::sqrt(correction2));
  s.step_size = fp32(hyper.lr / correction1);
  s.lr_weight_decay = fp32(hyper.lr * hyper.weight_decay);
  s.one_less_decay = fp32(1 - hyper.lr * hyper.weight_decay);
  const double fold = std::sqrt(correction2) / correction1;
  s.fold = fp32(fold);
  s.eps_root = fp32(hyper.eps * std::sqrt(correction2));
  s.folded_weight_decay = fp32(hyper.weight_decay / fold);
  s.folded_lr = fp32(hyper.lr * fold);
  return s;
}

}  // namespace zeroproof::verification
