#pragma once
// Step scalars (R5): a few sets for the streams of elements.

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <stdexcept>
#include <string>

#include "common/contracts/step_scalars.hpp"
#include "oracle.h"
#include "oracle_inputs.hpp"

namespace zeroproof::oracle {

/// The inputs of a set of scalars, for any rule.
struct ScalarCase {
  double lr;
  float beta1, beta2;
  double eps, weight_decay;
  bool bias_correction;
  double momentum, dampening;
  std::int64_t t;
  int log2_loss_scale;
  std::int64_t divisor;
};

/// Early and late steps, decay on and off, no bias correction, dampening, and scalars at the ends
/// of their ranges or beyond fp32. The second one has a decay that is not 0 in fp64 and 0 in fp32.
inline constexpr ScalarCase scalar_cases[] = {
    {1e-3, 0.9F, 0.999F, 1e-8, 0.01, true, 0.9, 0, 1, 0, 1},
    {1e-3, 0.9F, 0.999F, 1e-8, 1e-60, true, 0.9, 0.1, 2, 4, 2},
    {1e-3, 0.9F, 0.999F, 1e-8, 0, true, 0.9, 0, 2, 16, 3},
    {6e-4, 0.9F, 0.95F, 1e-8, 0.1, true, 0.95, 0, 10, 16, 4},
    {1e-4, 0.9F, 0.999F, 1e-6, 0.1, true, 0.99, 0.25, 1000, 24, 7},
    {1e-3, 0.9F, 0.999F, 1e-8, 0.01, false, 0.5, 0.5, 1, 0, 5},
    {1e-1, 0.8F, 0.99F, 1e-7, 0, false, 1, 1, 1, 8, 2},
    {1e30, 0.9F, 0.999F, 1e-8, 1e5, true, 0.9, 0, 3, 126, 1},
    {1e60, 0.9F, 0.999F, 1e-8, 1e45, true, 1e-60, 0, 4, 0, 1},
    {1e-3, 0, 0.5F, 0x1p-126, 0, true, 1, 0, 3, -126, 1},
    {1e-3, 0.3F, 0.25F, 1e-8, 0.1, true, 0.9, 0, 1, 16, 1},
    {1e-3, 0.9F, 0, 1e-8, 0.01, true, 0.9, 0, 2, 0, 2},
    {1e-38, 0.9F, 0.999F, 1e20, 1, true, 1e-40, 1e-20, 5, -40, 11},
    {0, 0.99F, 0.9999F, 1e-8, 0.1, true, 0.999, 0.75, 100, 10, 1000000007},
};
inline constexpr int scalar_sets = static_cast<int>(std::size(scalar_cases));

inline StepScalars to_step_scalars(const oracle_scalars& s) {
  static_assert(sizeof(oracle_scalars) == sizeof(StepScalars));
  return std::bit_cast<StepScalars>(s);
}

inline oracle_scalars scalars_of(int set, oracle_rule rule) {
  const ScalarCase& c = scalar_cases[set];
  oracle_hyper hyper{};
  hyper.rule = rule;
  hyper.lr = c.lr, hyper.beta1 = c.beta1, hyper.beta2 = c.beta2, hyper.eps = c.eps;
  hyper.weight_decay = c.weight_decay, hyper.bias_correction = c.bias_correction ? 1 : 0;
  if (rule == oracle_rule_sgd) hyper.momentum = c.momentum, hyper.dampening = c.dampening;
  oracle_scalars scalars{};
  if (oracle_step_scalars(&hyper, c.t, c.log2_loss_scale, c.divisor, &scalars) == 0)
    throw std::logic_error("a scalar case is outside the ranges of R5");
  return scalars;
}

/// The coefficient 1 is evaluated as well; 0 is that of an infinite norm, NaN that of a NaN norm.
inline float clip_coef_of(int set) {
  constexpr std::uint32_t coefs[scalar_sets] = {
      0x3F800000, 0x3F000000, 0x3EAAAAAB, 0x0DA24260, 0x00000000, 0x00000001, 0x7FC00000,
      0x3F7FFFFF, 0x3DCCCCCD, 0x3F800000, 0x3F400000, 0x3F800000, 0x00800000, 0x3F333333};
  return from_bits(coefs[set]);
}

/// Limits for clip_value: the special values (the limit itself must keep its bits), and sizes of
/// training.
inline constexpr std::uint32_t clip_values[] = {0x3F800000, 0x00000001, 0x7F7FFFFF, 0x00800000,
                                                0x3A83126F, 0x38D1B717, 0x1A000000, 0x5F800000};
inline constexpr int clip_value_sets = static_cast<int>(std::size(clip_values));

inline std::string hex(std::uint32_t bits) {
  char word[16];
  std::snprintf(word, sizeof word, " %08X", bits);
  return word;
}

inline std::string describe_scalars(int set, oracle_rule rule) {
  std::string text = "scalars of case " + std::to_string(set) + ":";
  for (std::uint32_t bits :
       std::bit_cast<std::array<std::uint32_t, num_step_scalar_words>>(scalars_of(set, rule))) {
    text += hex(bits);
  }
  return text + ", clip_coef" + hex(std::bit_cast<std::uint32_t>(clip_coef_of(set)));
}

}  // namespace zeroproof::oracle
