#pragma once

#include <cmath>
#include <cstdint>

#include "bounds.hpp"

namespace zeroproof::papers {

/// SplitMix64: the same cases in every run and on every machine.
class Cases {
 public:
  explicit Cases(std::uint64_t seed) : state_(seed) {}

  std::uint64_t word() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  int between(int low, int high) {
    return low + static_cast<int>(word() % static_cast<std::uint64_t>(high - low + 1));
  }
  double uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }

  /// Either sign, any significand, exponent from the range; subnormals are rounded.
  float with_exponent(int low, int high) {
    const double significand = 1 + static_cast<double>(word() >> 41) * 0x1p-23;
    const double x = std::ldexp(significand, between(low, high));
    return static_cast<float>(word() % 2 == 0 ? x : -x);
  }

  float value() {
    switch (between(0, 5)) {
      case 0:
        return static_cast<float>((uniform() * 2 - 1) * 1e-3);
      case 1:
        return with_exponent(-149, -110);
      case 2:
        return with_exponent(-149, 50);
      case 3:
        return 0;
      case 4:
        return with_exponent(-20, 0);
      default:
        return with_exponent(-70, -40);
    }
  }

  Scalars scalars() {
    static constexpr float betas1[] = {0.9F, 0.95F, 0.0F, 0.5F, 0.99F};
    static constexpr float betas2[] = {0.999F, 0.95F, 0.99F, 0.5F, 0.9999F, 0.25F, 0.0F};
    static constexpr double epsilons[] = {1e-8, 1e-8, 1e-8, 1e-6, 1e-12, 0x1p-126, 1e-3};
    const double t = std::floor(std::exp2(uniform() * 14));
    const double lr = std::pow(10.0, -6 * uniform());
    const double decay = between(0, 2) == 0 ? 0 : std::pow(10.0, -5 * uniform());
    const int log2_scale = between(0, 1) == 0 ? 0 : between(-10, 30);
    Scalars s{};
    s.inv_scale = static_cast<float>(std::ldexp(1.0, -log2_scale) / between(1, 17));
    s.clip_coef = between(0, 1) == 0 ? 1 : static_cast<float>(std::pow(uniform(), between(1, 40)));
    s.beta1 = betas1[between(0, 4)];
    s.one_minus_beta1 = static_cast<float>(1 - double{s.beta1});
    s.beta2 = betas2[between(0, 6)];
    s.one_minus_beta2 = static_cast<float>(1 - double{s.beta2});
    s.sqrt_bias_correction2 = static_cast<float>(std::sqrt(1 - std::pow(double{s.beta2}, t)));
    s.step_size = static_cast<float>(lr / (1 - std::pow(double{s.beta1}, t)));
    s.eps = static_cast<float>(epsilons[between(0, 6)]);
    s.lr_weight_decay = static_cast<float>(lr * decay);
    s.weight_decay = static_cast<float>(decay);
    s.lr = static_cast<float>(lr);
    s.momentum = between(0, 2) == 0 ? static_cast<float>(uniform()) : 0.9F;
    s.one_minus_dampening = between(0, 1) == 0 ? 1 : static_cast<float>(uniform());
    s.decay = decay != 0;
    s.l2 = between(0, 1) == 0;
    s.nesterov = between(0, 1) == 0;
    return s;
  }

  Element element(const Scalars& s) {
    Element x = {value(), between(0, 1) == 0 ? with_exponent(-20, 0) : value(), value(), 0};
    const float v = value();
    x.exp_avg_sq = between(0, 1) == 0 ? v * v : std::fabs(v);
    if (between(0, 3) == 0 && s.beta1 > 0) {  // the two parts of the first moment cancel
      const double g = double{x.grad_sum} * s.inv_scale * s.clip_coef;
      x.exp_avg = static_cast<float>(-s.one_minus_beta1 * g / s.beta1);
    }
    return x;
  }

 private:
  std::uint64_t state_;
};

}  // namespace zeroproof::papers
