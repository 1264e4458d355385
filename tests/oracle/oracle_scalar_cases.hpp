#pragma once
// Step scalars (R5): a few sets for the streams of elements, and random configurations for the scalars
// themselves.

#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "common/base/philox.hpp"
#include "common/contracts/step_scalars.hpp"
#include "oracle.h"
#include "oracle_inputs.hpp"

namespace zeroproof::oracle {

struct ScalarCase {
  oracle_hyper hyper;
  std::int64_t t;
  int log2_loss_scale;
  std::int64_t divisor;
};

/// Early and late steps, decay on and off, no bias correction, and scalars at the ends of their ranges.
inline constexpr ScalarCase scalar_cases[] = {
    {{1e-3, 0.9F, 0.999F, 1e-8, 0.01, 1, 0, 0}, 1, 0, 1},
    {{1e-3, 0.9F, 0.999F, 1e-8, 0, 1, 0, 0}, 2, 16, 3},
    {{6e-4, 0.9F, 0.95F, 1e-8, 0.1, 1, 0, 0}, 10, 16, 4},
    {{1e-4, 0.9F, 0.999F, 1e-6, 0.1, 1, 0, 0}, 1000, 24, 7},
    {{1e-3, 0.9F, 0.999F, 1e-8, 0.01, 0, 0, 0}, 1, 0, 5},
    {{1e30, 0.9F, 0.999F, 1e-8, 1e5, 1, 0, 0}, 3, 126, 1},
    {{1e-3, 0, 0.5F, 0x1p-126, 0, 1, 0, 0}, 3, -126, 1},
    {{1e-38, 0.9F, 0.999F, 1e20, 1, 1, 0, 0}, 5, -40, 11},
    {{0, 0.99F, 0.9999F, 1e-8, 0.1, 1, 0, 0}, 100, 10, 1000000007},
};
inline constexpr int scalar_sets = static_cast<int>(std::size(scalar_cases));

inline StepScalars to_step_scalars(const oracle_scalars& s) {
  return {s.inv_scale, s.beta1, s.one_minus_beta1, s.beta2,    s.one_minus_beta2, s.sqrt_bias_correction2,
          s.step_size, s.eps,   s.lr_weight_decay, s.has_decay};
}

inline oracle_scalars scalars_of(int set) {
  const ScalarCase& c = scalar_cases[set];
  oracle_scalars scalars{};
  oracle_step_scalars(&c.hyper, c.t, c.log2_loss_scale, c.divisor, &scalars);
  return scalars;
}

/// 1 is evaluated as well; 0 comes from an infinite norm, NaN from a NaN norm.
inline float clip_coef_of(int set) {
  constexpr std::uint32_t coefs[scalar_sets] = {0x3F800000, 0x3F000000, 0x3EAAAAAB, 0x0DA24260, 0x00000000,
                                                0x00000001, 0x7FC00000, 0x3F7FFFFF, 0x3DCCCCCD};
  return from_bits(coefs[set]);
}

inline std::string describe_scalars(int set) {
  const auto words = std::bit_cast<std::array<std::uint32_t, 10>>(scalars_of(set));
  std::string text = "scalars " + std::to_string(set) + ":";
  char word[16];
  for (std::uint32_t bits : words) {
    std::snprintf(word, sizeof word, " %08X", bits);
    text += word;
  }
  std::snprintf(word, sizeof word, " clip %08X", std::bit_cast<std::uint32_t>(clip_coef_of(set)));
  return text + word;
}

/// The largest betas: the cancellation in 1 - pow(beta, t) brings the last bits of pow to light.
inline ScalarCase cancelling_scalar_case(std::uint64_t index) {
  const Philox philox(19, 1);
  const float beta = 1 - 0x1p-23F * static_cast<float>(1 + philox.below(4 * index, 8));
  const double lr = philox.uniform(8 * index + 2);
  return {{lr, beta, beta, 1e-8, 0.01, 1, 0, 0},
          static_cast<std::int64_t>(1 + philox.below(4 * index + 2, 200)),
          0,
          1};
}

/// Anything a configuration might hold; most of them leave a range of R5.
inline ScalarCase random_scalar_case(std::uint64_t index) {
  const Philox philox(19);
  const auto pick = [&](std::uint64_t k, auto values) {
    return values[philox.below(32 * index + k, values.size())];
  };
  using Doubles = std::vector<double>;
  using Floats = std::vector<float>;
  using Integers = std::vector<std::int64_t>;
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto uniform = static_cast<double>(philox.uniform(32 * index + 31));
  const auto any = static_cast<float>(uniform);
  ScalarCase c{};
  c.hyper.lr = pick(
      0, Doubles{1e-3, uniform, uniform * 1e-4, 6e-4, 1e-200, 1e30, 1e60, 0, -0.0, 1e-3, 3e-4, inf, -1, nan});
  c.hyper.beta1 =
      pick(1, Floats{0.9F, any, 0.95F, 0.5F, 0, 1 - 0x1p-23F, any, 0.9F, 0.8F, 1 - 0x1p-24F, -0x1p-30F});
  c.hyper.beta2 =
      pick(2, Floats{0.999F, 0.95F, 0.5F + any / 2, 0.5F, 1 - 0x1p-23F, 0.99F, 0.9999F, 0.98F, 0.4999F, 1});
  c.hyper.eps = pick(3, Doubles{1e-8, 1e-6, uniform, 0x1p-126, 1e-8, 1e-10, 1, 0x1.ffffffp-127, 1e39,
                                0x1.fffffep-127, 0, -1});
  c.hyper.weight_decay =
      pick(4, Doubles{0, 0.01, 0.1, uniform, 1e-200, 1e-2, 0.1, 0.05, 5e-324, -0.1, inf, nan});
  c.hyper.bias_correction = pick(5, Integers{0, 1, 1, 1}) != 0;
  c.hyper.has_max_norm = pick(6, Integers{0, 1}) != 0;
  c.hyper.max_norm = pick(7, Doubles{1, 0, 0.5, 1, 1, 1e300, uniform, 2, 3, inf, nan, -1});
  c.t = pick(8, Integers{1, 2, 3, 10, 1000, 65535, 1234567, 1LL << 40, INT64_MAX, 7, 100, 0, -1});
  c.log2_loss_scale =
      static_cast<int>(pick(9, Integers{0, 0, 16, 24, 10, -10, 64, -126, 126, 127, -127, 1100, -1200}));
  c.divisor = pick(10, Integers{1, 1, 2, 3, 4, 7, 1000000007, (1LL << 53) - 1, 8, 5, 1LL << 53, 0, -3});
  return c;
}

}  // namespace zeroproof::oracle
