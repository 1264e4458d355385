// The norms and the ratio of LAMB (R6) against the oracle: equal bits for any partition of a
// tensor.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "oracle_implementations.hpp"
#include "oracle_limbs.hpp"
#include "oracle_norm_cases.hpp"
#include "oracle_scalar_cases.hpp"

namespace lamb_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::oracle;

struct Tensor {
  std::vector<float> grad, master, exp_avg, exp_avg_sq;
};

Tensor tensor_of(Family family, std::size_t numel) {
  Tensor t;
  for (std::size_t i = 0; i < numel; ++i) {
    const Element x = make_element(family, i);
    t.grad.push_back(x[0]);
    t.master.push_back(x[1]);
    t.exp_avg.push_back(x[2]);
    t.exp_avg_sq.push_back(x[3]);
  }
  return t;
}

/// By the oracle: u of every element, and sums of squares byte by byte.
TrustNorms expected(const Tensor& t, bool maximize, const oracle_scalars& scalars) {
  Tensor moved = t;
  std::vector<float> u(t.grad.size());
  oracle_lamb(maximize ? 1 : 0, &scalars, 1, t.grad.data(), moved.master.data(),
              moved.exp_avg.data(), moved.exp_avg_sq.data(), u.data(), u.size());
  const auto squares = [](const std::vector<float>& x) {
    oracle_exact sum;
    oracle_exact_clear(&sum);
    oracle_exact_add_squares(&sum, x.data(), x.size());
    return to_limbs(sum);
  };
  return {squares(t.master), squares(u)};
}

/// In two pieces, the second one first.
TrustNorms norms_by(const Implementation& implementation, const Tensor& t, bool maximize,
                    const oracle_scalars& scalars, std::size_t cut) {
  TrustNorms norms;
  const auto add = [&](std::size_t begin, std::size_t count) {
    const auto part = [&](const std::vector<float>& x) {
      return Span<const float>(x).subspan(begin, count);
    };
    implementation.lamb_norms(implementation.exec, {maximize}, to_step_scalars(scalars),
                              part(t.grad), part(t.master), part(t.exp_avg), part(t.exp_avg_sq),
                              norms);
  };
  add(cut, t.grad.size() - cut);
  add(0, cut);
  implementation.grad_norm_normalise(norms.weight);
  implementation.grad_norm_normalise(norms.update);
  return norms;
}

}  // namespace

TEST_CASE("lamb: norms of weights and updates are the oracle's, whatever the pieces") {
  for (const Family family : {Family::any_bits, Family::near_subnormal, Family::training}) {
    CAPTURE(name(family));
    for (const std::size_t numel :
         {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{1000}, std::size_t{4099}}) {
      const Tensor t = tensor_of(family, numel);
      for (int set = 0; set < scalar_sets; ++set) {
        const oracle_scalars scalars = scalars_of(set, oracle_rule_lamb);
        const bool maximize = set % 2 != 0;
        const TrustNorms want = expected(t, maximize, scalars);
        CAPTURE(numel);
        CAPTURE(set);
        for (const Implementation& implementation : all_implementations()) {
          CAPTURE(implementation.name);
          CHECK(norms_by(implementation, t, maximize, scalars, numel / 3) == want);
        }
      }
    }
  }
}

TEST_CASE("lamb: trust ratios of any norms are the oracle's") {
  for (const Implementation& implementation : all_implementations()) {
    CAPTURE(implementation.name);
    int different = 0;
    for (std::uint64_t index = 0; index < 20000; ++index) {
      TrustNorms norms{random_limbs(2 * index), random_limbs(2 * index + 1)};
      if (index % 16 == 1) norms.weight = {};
      if (index % 16 == 2) norms.update = {};
      if (index % 16 == 3) norms.weight.nan_count = 1;
      if (index % 16 == 4) norms.update.inf_count = 1;
      StepScalars scalars{};
      scalars.lr = index % 8 == 7 ? 0 : std::ldexp(1.1F, static_cast<int>(index % 40) - 30);
      const float want =
          oracle_trust_ratio(scalars.lr, implementation.grad_norm_finish(norms.weight),
                             implementation.grad_norm_finish(norms.update));
      const float got = implementation.lamb_trust_ratio(scalars, norms);
      const bool same = std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(want);
      different += same || (got != got && want != want) ? 0 : 1;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("lamb: a norm of 0 makes the ratio 1, whatever the other one is") {
  TrustNorms nan;
  nan.update.nan_count = 1;
  for (const Implementation& implementation : all_implementations()) {
    CAPTURE(implementation.name);
    CHECK(implementation.lamb_trust_ratio({}, nan) == 1);
    CHECK(implementation.lamb_trust_ratio({}, {}) == 1);
  }
}

}  // namespace lamb_test
