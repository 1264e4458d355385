#pragma once
// LAMB as plain loops over the lines of R6; norms are the oracle's sums of R12.

#include <cmath>
#include <cstddef>
#include <vector>

#include "common/base/span.hpp"
#include "common/contracts/step_scalars.hpp"
#include "oracle.h"

namespace zeroproof::device_test {

/// Operands of some elements of one tensor, [numel] each.
struct LambOperands {
  Span<const float> grad;
  Span<float> master, exp_avg, exp_avg_sq;
};

/// u and the new moments of element i.
struct LambNext {
  float u, exp_avg, exp_avg_sq;
};

inline LambNext lamb_next(const StepScalars& s, bool maximize, const LambOperands& of,
                          std::size_t i) {
  const float g = maximize ? -of.grad[i] : of.grad[i];
  LambNext next{};
  const float a1 = s.beta1 * of.exp_avg[i];
  const float a2 = s.one_minus_beta1 * g;
  next.exp_avg = a1 + a2;
  const float h = g * g;
  const float b1 = s.beta2 * of.exp_avg_sq[i];
  const float b2 = s.one_minus_beta2 * h;
  next.exp_avg_sq = b1 + b2;
  const float root = std::sqrt(next.exp_avg_sq);
  const float r = root / s.sqrt_bias_correction2;
  const float d = r + s.eps;
  const float q = next.exp_avg / d;
  const float a = s.step_size * q;
  const float w = s.lr_weight_decay * of.master[i];
  next.u = s.has_decay != 0 ? a + w : a;
  return next;
}

inline std::vector<float> lamb_updates(const StepScalars& s, bool maximize,
                                       const LambOperands& of) {
  std::vector<float> u;
  for (std::size_t i = 0; i < of.grad.size(); ++i) u.push_back(lamb_next(s, maximize, of, i).u);
  return u;
}

inline oracle_exact sum_of_squares(Span<const float> values) {
  oracle_exact sum;
  oracle_exact_clear(&sum);
  oracle_exact_add_squares(&sum, values.data(), values.size());
  return sum;
}

inline float lamb_ratio(const StepScalars& s, double weight_norm, double update_norm) {
  if (weight_norm == 0 || update_norm == 0) return 1;
  const double n = static_cast<double>(s.lr) * weight_norm;
  const double q = n / update_norm;
  return static_cast<float>(q);
}

/// Of a whole tensor.
inline float lamb_ratio_of(const StepScalars& s, bool maximize, const LambOperands& of) {
  const oracle_exact weight = sum_of_squares(of.master);
  const oracle_exact update = sum_of_squares(lamb_updates(s, maximize, of));
  return lamb_ratio(s, oracle_exact_norm(&weight), oracle_exact_norm(&update));
}

inline void lamb_by_loop(const StepScalars& s, bool maximize, float ratio, const LambOperands& of) {
  for (std::size_t i = 0; i < of.grad.size(); ++i) {
    const LambNext next = lamb_next(s, maximize, of, i);
    const float p = ratio * next.u;
    of.master[i] = of.master[i] - p;
    of.exp_avg[i] = next.exp_avg;
    of.exp_avg_sq[i] = next.exp_avg_sq;
  }
}

}  // namespace zeroproof::device_test
