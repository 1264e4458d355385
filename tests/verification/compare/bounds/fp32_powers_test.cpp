// Powers of beta in fp32: the numbers that are permitted, and the bounds with a pair of them.

#include <doctest.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "verification/compare/bounds/fp32_powers.hpp"
#include "verification/compare/bounds/update_bounds.hpp"

namespace fp32_powers_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

/// The scalars of a program that computes them in fp32 from powers of beta in fp32.
struct Scalars {
  float power1, power2, beta1, beta2, lr, eps, decay;
  float correction1() const { return 1 - power1; }
  float correction2() const { return 1 - power2; }
  float rate() const { return lr / correction1(); }
  float root() const { return std::sqrt(correction2()); }
};

void moments(const Scalars& s, float g, ElementState& x) {
  x.exp_avg = x.exp_avg + (1 - s.beta1) * (g - x.exp_avg);
  x.exp_avg_sq = std::fma(g * g, 1 - s.beta2, x.exp_avg_sq * s.beta2);
}

using Step = std::function<float(const Scalars&, const ElementState&)>;

/// Steps from new moments, without the decay. The first is that of torch.optim.AdamW under torch.compile (PyTorch 2.15).
const std::vector<std::pair<std::string, Step>>& steps() {
  static const std::vector<std::pair<std::string, Step>> all = {
      {"divided by the rate",
       [](const Scalars& s, const ElementState& x) {
         const float rate = -(1 / s.correction1() * s.lr);
         return x.exp_avg / (std::sqrt(x.exp_avg_sq) / (s.root() * rate) + 1 / rate * s.eps);
       }},
      {"contract",
       [](const Scalars& s, const ElementState& x) {
         return -(s.rate() * (x.exp_avg / (std::sqrt(x.exp_avg_sq) / s.root() + s.eps)));
       }},
      {"reciprocals",
       [](const Scalars& s, const ElementState& x) {
         const float rate = 1 / s.correction1() * s.lr;
         return -(rate * x.exp_avg) / (std::sqrt(x.exp_avg_sq) * (1 / s.root()) + s.eps);
       }},
      {"merged",
       [](const Scalars& s, const ElementState& x) {
         const float rate = 1 / s.correction1() * s.lr * s.root();
         return -(rate * x.exp_avg / (std::sqrt(x.exp_avg_sq) + s.eps * s.root()));
       }},
      {"corrected moments", [](const Scalars& s, const ElementState& x) {
         const float m = x.exp_avg / s.correction1(), v = x.exp_avg_sq / s.correction2();
         return -(s.lr * (m / (std::sqrt(v) + s.eps)));
       }}};
  return all;
}

class Draws {
 public:
  double uniform(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }
  template <class Values>
  auto one_of(const Values& values) {
    return values[random_() % std::size(values)];
  }
  float number(double low, double high) {
    const double magnitude = std::exp2(uniform(low, high));
    return static_cast<float>(random_() % 2 == 0 ? magnitude : -magnitude);
  }

 private:
  std::mt19937 random_{5};
};

}  // namespace

TEST_CASE("powers: fp32 numbers within 4 ulps, the nearest first, by hand") {
  const std::vector<float> quarter = fp32_powers(0.5F, 2);  // below a power of two ulps are half
  CHECK(quarter.size() == 13);
  CHECK(quarter.front() == 0.25F);
  CHECK(*std::ranges::min_element(quarter) == 0.25F - 0x1p-23F);
  CHECK(*std::ranges::max_element(quarter) == 0.25F + 0x1p-23F);
  CHECK(fp32_powers(0, 1) == std::vector<float>{0});
  const std::vector<float> near_one = fp32_powers(1 - 0x1p-24F, 1);  // 1 - 1 corrects nothing
  CHECK(near_one.front() == 1 - 0x1p-24F);
  CHECK(*std::ranges::max_element(near_one) < 1);
  CHECK(near_one.size() == 5);
  CHECK(fp32_powers(0.5F, 149) ==
        std::vector<float>{0x1p-149F, 0, 0x1p-148F, 0x3p-149F, 0x1p-147F, 0x5p-149F});
  CHECK(fp32_powers(0.5F, 1000).front() == 0);
  for (const float beta : {0.9F, 0.999F, 0.9999F}) {
    for (const std::int64_t t : {1, 3, 1001, 100000}) {
      const long double exact =
          std::pow(static_cast<long double>(beta), static_cast<long double>(t));
      const auto nearest = static_cast<float>(exact);
      const auto powers = fp32_powers(beta, t);
      CHECK(powers.front() == nearest);
      const float unit = std::nextafter(nearest, 2.0F) - nearest;
      const auto has = [&](float power) {
        return std::ranges::find(powers, power) != powers.end();
      };
      CHECK(has(nearest + 3 * unit));
      CHECK((has(nearest - 3 * unit) || nearest < 3 * unit));
      CHECK_FALSE(has(nearest + 5 * unit));
    }
  }
}

TEST_CASE("bounds: every order with fp32 powers is inside the bound with its pair") {
  double worst_of_all = 0;
  for (const auto& step : steps()) {
    const std::string& name = step.first;
    CAPTURE(name);
    Draws draws;
    double worst = 0, worst_step = 0, without = 0;
    int judged = 0, beyond = 0;
    for (int i = 0; i < 3000; ++i) {
      OptimizerHyper h;
      h.lr = std::exp2(draws.uniform(-14, 0));
      h.beta1 = draws.one_of(std::array{0.9F, 0.95F, 0.5F, 0.999F});
      h.beta2 = draws.one_of(std::array{0.999F, 0.95F, 0.75F, 0.9999F});
      h.eps = draws.one_of(std::array{1e-8, 1e-6, 1e-3, 0.1});
      h.weight_decay = draws.one_of(std::array{0.0, 0.1});
      const std::int64_t t = draws.one_of(std::array{1, 2, 3, 17, 1001});
      const float power1 = draws.one_of(fp32_powers(h.beta1, t)),
                  power2 = draws.one_of(fp32_powers(h.beta2, t));
      UpdateBounds bounds(h, t);
      const UpdateBounds exact = bounds;
      bounds.set_powers(power1, power2);
      const Scalars s = {power1,
                         power2,
                         h.beta1,
                         h.beta2,
                         static_cast<float>(h.lr),
                         static_cast<float>(h.eps),
                         static_cast<float>(1 - h.lr * h.weight_decay)};
      for (int k = 0; k < 64; ++k) {
        const float g = draws.number(-28, 4);
        const ElementState x = {k % 2 == 0 ? draws.number(-12, 2) : 0, draws.number(-30, 0),
                                std::fabs(draws.number(-50, 0))};
        ElementState y = x;
        moments(s, g, y);
        y.master = x.master * s.decay + step.second(s, y);
        const ElementBound bound = bounds(g, x).master;
        if (!bound.judged) continue;
        ++judged;
        double& largest = x.master == 0 ? worst_step : worst;
        largest = std::max(largest, bound.ratio(y.master));
        const double off = exact(g, x).master.ratio(y.master);
        without = std::max(without, off);
        beyond += off > 1 ? 1 : 0;
      }
    }
    CHECK(worst <= 1);
    CHECK(worst_step <= 1);
    CHECK(worst_step >= 0.3);
    CHECK(judged > 170000);
    CHECK(without > 100);  // t = 1, where 1 - beta2^t has few digits
    MESSAGE(name << ": " << worst << " of the bound with the pair, " << worst_step
                 << " where the parameter is 0; without, " << beyond << " of " << judged
                 << " are beyond it, up to " << without << " times");
    worst_of_all = std::max(worst_of_all, worst);
  }
  CHECK(worst_of_all >= 0.9);
}

TEST_CASE("bounds: fp32 scalars of a pair add three roundings, four beside the root, by hand") {
  OptimizerHyper h;
  h.lr = 1;
  h.beta1 = h.beta2 = 0.5F;  // 0.25 is exact: only roundings after the powers are more
  h.weight_decay = 0;
  for (const double eps : {0x1p-60, 0x1p20}) {
    h.eps = eps;
    const UpdateBounds exact(h, 2);
    UpdateBounds bounds = exact;
    bounds.set_powers(0.25F, 0.25F);
    const ElementState x = {.master = 0, .exp_avg = 1, .exp_avg_sq = 1};
    const ElementBound with = bounds(0, x).master, without = exact(0, x).master;
    CHECK(with.exact == without.exact);
    const long double more = (with.allowed - without.allowed) / std::fabs(with.exact) / 0x1p-24L;
    CHECK(static_cast<double>(more) == doctest::Approx(eps > 1 ? 3 : 4).epsilon(1e-3));
  }
}

TEST_CASE("bounds: special numbers keep the classes of exact powers") {
  OptimizerHyper h;
  UpdateBounds bounds(h, 1);
  const float power1 = fp32_powers(h.beta1, 1).back(), power2 = fp32_powers(h.beta2, 1).back();
  const UpdateBounds exact = bounds;
  bounds.set_powers(power1, power2);
  for (const float g : {NAN, INFINITY, 1e20F, -FLT_MAX}) {
    const ElementState x = {.master = 1, .exp_avg = 1, .exp_avg_sq = 1};
    CHECK(bounds(g, x).master.classes == exact(g, x).master.classes);
    CHECK(bounds(g, x).exp_avg.classes == exact(g, x).exp_avg.classes);
  }
  // m / c1 overflows for 1 - beta1^t of 0x1p-24, and does not for 0x1p-22
  h.beta1 = 1 - 0x1p-22F;
  h.lr = 1;
  h.weight_decay = 0;
  const ElementState steep = {.master = 0, .exp_avg = 0x1.8p105F, .exp_avg_sq = 1};
  UpdateBounds small(h, 1), large(h, 1);
  small.set_powers(1 - 0x1p-24F, h.beta2);
  large.set_powers(1 - 0x1p-22F, h.beta2);
  CHECK(small(0, steep).master.classes.contains(ResultClasses::minus_infinity));
  CHECK_FALSE(large(0, steep).master.classes.contains(ResultClasses::minus_infinity));
}

}  // namespace fp32_powers_test
