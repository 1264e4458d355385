// Programs with a mistake in their update: the catalogue names it, and nothing else.

#include <doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/float_formats.hpp"
#include "verification/compare/bounds/update_bounds.hpp"
#include "verification/compare/wrong_formulas.hpp"

namespace wrong_formulas_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

float bf16_of(double x) { return to_float(to_bf16(static_cast<float>(x))); }
float cut_to_bf16(double x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) & 0xFFFF0000U);
}

struct Tensors {
  std::vector<float> grad, master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer;

  UpdateState state() const {
    return {master, exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer};
  }
};

/// One element of AdamW or Adam in plain fp32, and every way to write it wrongly.
struct Program {
  double lr = 3e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, decay = 0.05;
  double new1 = 0, new2 = 0;              // weights of the gradient, if not 1 - beta
  double corrected1 = 0, corrected2 = 0;  // betas of the bias corrections, if others
  double t = 7;
  bool corrects1 = true, corrects2 = true, narrow_powers = false;
  enum class Eps { outside, in_root, in_root_uncorrected, uncorrected, none } eps_is = Eps::outside;
  enum class Decay { factor, after, without_lr, in_gradient, none } decay_is = Decay::factor;
  bool old_m = false, old_v = false, amsgrad = false, ignores_maximum = false;
  float grad_factor = 1;
  bool loses_m = false, loses_v = false;

  void operator()(Tensors& x, std::size_t i) const {
    const auto power = [&](double beta) {
      const double exact = std::pow(beta, t);
      return narrow_powers ? static_cast<float>(exact) : exact;
    };
    const double power1 = power(corrected1 > 0 ? corrected1 : beta1);
    const double power2 = power(corrected2 > 0 ? corrected2 : beta2);
    const double correction1 = corrects1 ? 1 - power1 : 1, correction2 = corrects2 ? 1 - power2 : 1;
    float &p = x.master[i], &m = x.exp_avg[i], &v = x.exp_avg_sq[i];
    float g = x.grad[i] * grad_factor;
    if (decay_is == Decay::in_gradient) g += static_cast<float>(decay) * p;
    if (loses_m) m = 0;
    if (loses_v) v = 0;
    const float was_m = m, was_v = v;
    m = new1 > 0 ? static_cast<float>(beta1) * m + static_cast<float>(new1) * g
                 : m + static_cast<float>(1 - beta1) * (g - m);
    v = static_cast<float>(beta2) * v + static_cast<float>(new2 > 0 ? new2 : 1 - beta2) * g * g;
    float root = old_v ? was_v : v;
    if (amsgrad) {
      x.max_exp_avg_sq[i] = std::max(x.max_exp_avg_sq[i], v);
      if (!ignores_maximum) root = x.max_exp_avg_sq[i];
    }
    const auto e = static_cast<float>(eps);
    const auto c = static_cast<float>(std::sqrt(correction2));
    float d = std::sqrt(root) / c + (eps_is == Eps::none ? 0 : e);
    if (eps_is == Eps::in_root) d = std::sqrt(root / static_cast<float>(correction2) + e);
    if (eps_is == Eps::in_root_uncorrected) d = std::sqrt(root + e) / c;
    if (eps_is == Eps::uncorrected) d = (std::sqrt(root) + e) / c;
    const float step = static_cast<float>(lr / correction1) * ((old_m ? was_m : m) / d);
    const auto kept = static_cast<float>(1 - lr * decay);
    if (decay_is == Decay::factor) p = p * kept - step;
    if (decay_is == Decay::after) p = (p - step) * kept;
    if (decay_is == Decay::without_lr) p = p * static_cast<float>(1 - decay) - step;
    if (decay_is == Decay::in_gradient || decay_is == Decay::none) p = p - step;
  }
};

UpdateSetup setup_of(const Program& program, UpdateRule rule = UpdateRule::adamw) {
  UpdateSetup setup;
  setup.hyper.rule = rule;
  setup.hyper.lr = program.lr;
  setup.hyper.eps = program.eps;
  setup.hyper.weight_decay = program.decay;
  setup.hyper.amsgrad = program.amsgrad;
  setup.hyper.beta1 = static_cast<float>(program.beta1);
  setup.hyper.beta2 = static_cast<float>(program.beta2);
  setup.beta1 = program.beta1;
  setup.beta2 = program.beta2;
  setup.t = static_cast<std::int64_t>(program.t);
  return setup;
}

/// Gradients and moments of a training, over several orders of magnitude.
Tensors drawn(std::size_t count, bool amsgrad = false) {
  Tensors x;
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<double>(i + 1);
    const double size = std::exp2(-9 + 4 * std::sin(0.37 * at));
    x.grad.push_back(static_cast<float>(size * std::sin(1.3 * at)));
    x.master.push_back(static_cast<float>(0.1 * std::cos(2.1 * at)));
    x.exp_avg.push_back(static_cast<float>(0.4 * size * std::cos(0.9 * at)));
    x.exp_avg_sq.push_back(static_cast<float>(0.1 * size * size * (1.1 + std::sin(5.0 * at))));
    if (amsgrad) x.max_exp_avg_sq.push_back(x.exp_avg_sq.back() * (i % 2 == 0 ? 1.5F : 0.9F));
  }
  return x;
}

using Found = std::optional<std::vector<std::string>>;

Found explained(const Program& program, const UpdateSetup& setup, std::size_t count = 301) {
  const Tensors before = drawn(count, program.amsgrad);
  Tensors after = before;
  for (std::size_t i = 0; i < count; ++i) program(after, i);
  const UpdateResults results{before.grad, before.state(), after.state()};
  return wrong_formulas(setup, {&results, 1});
}

/// The only explanation of a program that differs from the right one by `mistake`.
void expect(const std::string& text, const std::function<void(Program&)>& mistake,
            const Program& right = {}, UpdateRule rule = UpdateRule::adamw) {
  CAPTURE(text);
  Program program = right;
  mistake(program);
  const Found found = explained(program, setup_of(right, rule));
  REQUIRE(found.has_value());
  CAPTURE(as_if(*found));
  CHECK(*found == std::vector<std::string>{text});
}

}  // namespace

TEST_CASE("wrong formulas: none for a right program, for few elements or for other mistakes") {
  CHECK_FALSE(explained({}, setup_of({})).has_value());
  const Program late{.eps_is = Program::Eps::in_root};
  CHECK_FALSE(explained(late, setup_of({}), 2).has_value());
  CHECK(explained(late, setup_of({}), 30).has_value());
  const Program two{.eps_is = Program::Eps::in_root, .decay_is = Program::Decay::after};
  CHECK(explained(two, setup_of({})) == Found{std::vector<std::string>{}});
  const Program grown{.lr = 3.01e-3};
  CHECK(explained(grown, setup_of({})) == Found{std::vector<std::string>{}});
}

TEST_CASE("wrong formulas: one element apart, and the formula is not that") {
  const Tensors before = drawn(301);
  Tensors after = before;
  const Program program{.eps_is = Program::Eps::in_root};
  for (std::size_t i = 0; i < 301; ++i) program(after, i);
  for (float* x : {&after.master[17], &after.exp_avg[17], &after.exp_avg_sq[17]}) {
    const float was = *x;
    for (const float wrong : {was * 1.01F, std::numeric_limits<float>::quiet_NaN()}) {
      *x = wrong;
      const UpdateResults results{before.grad, before.state(), after.state()};
      CHECK(wrong_formulas(setup_of({}), {&results, 1}) == Found{std::vector<std::string>{}});
    }
    *x = was;
  }
}

TEST_CASE("wrong formulas: none where the right one fits within the same limit") {
  Program right;
  right.eps = 1e-30;  // without effect, so leaving it out gives the same
  const UpdateSetup setup = setup_of(right);
  const Tensors before = drawn(301);
  Tensors after = before;
  UpdateBounds bounds(setup.hyper, setup.t);
  bounds.set_betas(setup.beta1, setup.beta2);
  int off = 0;
  for (std::size_t i = 0; i < 301; ++i) {
    right(after, i);
    const ElementBound bound =
        bounds(before.grad[i], {before.master[i], before.exp_avg[i], before.exp_avg_sq[i]}).master;
    const auto moved = static_cast<float>(bound.exact + 1.5L * bound.allowed);
    if (off == 9 || !(bound.ratio(moved) > 1) || bound.ratio(moved) > 2) continue;
    after.master[i] = moved;
    ++off;
  }
  REQUIRE(off == 9);
  const UpdateResults results{before.grad, before.state(), after.state()};
  CHECK(wrong_formulas(setup, {&results, 1}) == Found{});
}

TEST_CASE("wrong formulas: none whose bound judges nothing") {
  UpdateSetup setup;
  setup.hyper.rule = UpdateRule::sgd;
  setup.hyper.lr = 1e-38;
  setup.hyper.weight_decay = 1e38;  // twice that is beyond every bound
  setup.t = 2;
  Tensors before;
  for (int i = 0; i < 9; ++i) {
    before.grad.push_back(1);
    before.master.push_back(1 + 0.01F * static_cast<float>(i));
  }
  Tensors after = before;
  for (float& x : after.master) x *= 0.5F;
  const UpdateResults results{before.grad, before.state(), after.state()};
  CHECK(wrong_formulas(setup, {&results, 1}) == Found{std::vector<std::string>{}});
}

TEST_CASE("wrong formulas: time and bias correction") {
  expect("t were one less", [](Program& p) { p.t -= 1; });
  expect("t were one more", [](Program& p) { p.t += 1; });
  expect("there were no bias correction", [](Program& p) { p.corrects1 = p.corrects2 = false; });
  expect("exp_avg had no bias correction", [](Program& p) { p.corrects1 = false; });
  expect("exp_avg_sq had no bias correction", [](Program& p) { p.corrects2 = false; });
  expect("the bias corrections had exchanged betas",
         [](Program& p) { p.corrected1 = p.beta2, p.corrected2 = p.beta1; });
  Program without;
  without.corrects1 = without.corrects2 = false;
  UpdateSetup setup = setup_of(without);
  setup.hyper.bias_correction = false;
  CHECK_FALSE(explained(without, setup).has_value());
  CHECK(explained({}, setup) == Found{{"there were a bias correction"}});
}

TEST_CASE("wrong formulas: powers of beta in fp32, where 1 - beta^t cancels") {
  Program early;
  early.t = 2;
  expect(
      "1 - beta^t were computed from a power in fp32", [](Program& p) { p.narrow_powers = true; },
      early);
  early.narrow_powers = true;
  early.t = 2000;  // beta^t is small: every order of the contract has such an error
  CHECK_FALSE(explained(early, setup_of(early)).has_value());
}

TEST_CASE("wrong formulas: eps") {
  using Eps = Program::Eps;
  expect("eps were inside the square root", [](Program& p) { p.eps_is = Eps::in_root; });
  expect("eps were inside the square root, before the bias correction",
         [](Program& p) { p.eps_is = Eps::in_root_uncorrected; });
  expect("eps were added before the bias correction",
         [](Program& p) { p.eps_is = Eps::uncorrected; });
  expect("eps were left out", [](Program& p) { p.eps_is = Eps::none; });
}

TEST_CASE("wrong formulas: weight decay") {
  using Decay = Program::Decay;
  expect("the weight decay were left out", [](Program& p) { p.decay_is = Decay::none; });
  expect("the weight decay were applied twice", [](Program& p) { p.decay *= 2; });
  expect("the weight decay came after the step", [](Program& p) { p.decay_is = Decay::after; });
  expect("the weight decay were not multiplied by lr",
         [](Program& p) { p.decay_is = Decay::without_lr; });
  expect("the weight decay were added to the gradient",
         [](Program& p) { p.decay_is = Decay::in_gradient; });
  Program coupled;
  coupled.decay_is = Decay::in_gradient;
  expect(
      "the weight decay were not added to the gradient, but subtracted from master",
      [](Program& p) { p.decay_is = Decay::factor; }, coupled, UpdateRule::adam);
}

TEST_CASE("wrong formulas: betas and settings in 16 bits") {
  expect("beta1 and beta2 were exchanged", [](Program& p) { std::swap(p.beta1, p.beta2); });
  expect("exp_avg were averaged with beta2",
         [](Program& p) { p.corrected1 = p.beta1, p.beta1 = p.beta2; });
  expect("exp_avg_sq were averaged with beta1",
         [](Program& p) { p.corrected2 = p.beta2, p.beta2 = p.beta1; });
  const Program other{.beta2 = 0.98};  // not the same cut and rounded
  expect("beta1 were rounded to bf16", [](Program& p) { p.beta1 = bf16_of(p.beta1); });
  expect(
      "beta2 were rounded to bf16", [](Program& p) { p.beta2 = bf16_of(p.beta2); }, other);
  expect(
      "beta2 were rounded to bf16, except in the bias correction",
      [](Program& p) { p.corrected2 = p.beta2, p.beta2 = bf16_of(p.beta2); }, other);
  expect("beta2 were cut to bf16", [](Program& p) { p.beta2 = cut_to_bf16(p.beta2); });
  expect("beta2 were cut to bf16, except in the bias correction",
         [](Program& p) { p.corrected2 = p.beta2, p.beta2 = cut_to_bf16(p.beta2); });
  expect("1 - beta1 were rounded to bf16", [](Program& p) { p.new1 = bf16_of(1 - p.beta1); });
  expect("1 - beta2 were rounded to bf16", [](Program& p) { p.new2 = bf16_of(1 - p.beta2); });
  const auto fp16_of = [](double x) { return to_float(to_fp16(static_cast<float>(x))); };
  expect("1 - beta1 were rounded to fp16", [&](Program& p) { p.new1 = fp16_of(1 - p.beta1); });
  expect("1 - beta2 were rounded to fp16", [&](Program& p) { p.new2 = fp16_of(1 - p.beta2); });
  const auto all = [](Program& p, float (*to)(double)) {
    for (double* x : {&p.lr, &p.beta1, &p.beta2, &p.eps, &p.decay}) *x = to(*x);
  };
  expect(
      "lr, betas, eps and weight decay were rounded to bf16", [&](Program& p) { all(p, bf16_of); },
      other);
  expect("lr, betas, eps and weight decay were cut to bf16",
         [&](Program& p) { all(p, cut_to_bf16); });
  expect(
      "lr, betas, eps and weight decay were cut to bf16, except the betas of the bias corrections",
      [&](Program& p) {
        p.corrected1 = p.beta1, p.corrected2 = p.beta2;
        all(p, cut_to_bf16);
      });
  expect("lr were rounded to bf16", [](Program& p) {  // of the decay too
    p.lr = bf16_of(p.lr);
  });
  expect("lr were squared", [](Program& p) { p.lr *= p.lr; });
}

TEST_CASE("wrong formulas: gradient and state") {
  expect("the gradient had the other sign", [](Program& p) { p.grad_factor = -1; });
  expect("the gradient were multiplied by 2^-16", [](Program& p) { p.grad_factor = 0x1p-16F; });
  expect("the gradient were multiplied by 2^10", [](Program& p) { p.grad_factor = 1024; });
  expect("the gradient were multiplied by 3", [](Program& p) { p.grad_factor = 3; });
  expect("the gradient were divided by 7", [](Program& p) { p.grad_factor = 1.0F / 7; });
  expect("exp_avg had been 0 before the step", [](Program& p) { p.loses_m = true; });
  expect("exp_avg_sq had been 0 before the step", [](Program& p) { p.loses_v = true; });
  expect("both moments had been 0 before the step",
         [](Program& p) { p.loses_m = p.loses_v = true; });
  expect("master were made from exp_avg before the step", [](Program& p) { p.old_m = true; });
  expect("master were made from exp_avg_sq before the step", [](Program& p) { p.old_v = true; });
  expect("master were made from both moments before the step",
         [](Program& p) { p.old_m = p.old_v = true; });
  const Program amsgrad{.amsgrad = true};
  CHECK_FALSE(explained(amsgrad, setup_of(amsgrad)).has_value());
  expect(
      "master were made from exp_avg_sq, not from its maximum",
      [](Program& p) { p.ignores_maximum = true; }, amsgrad);
}

TEST_CASE("wrong formulas: sgd") {
  UpdateSetup setup;
  setup.hyper.rule = UpdateRule::sgd;
  setup.hyper.lr = 0.25;
  setup.hyper.weight_decay = 0;
  setup.hyper.momentum = 0.9;
  setup.hyper.dampening = 0.4;
  setup.t = 2;
  const auto found = [&](float dampening, bool nesterov, bool is_first) {
    Tensors before = drawn(301);
    before.momentum_buffer = before.exp_avg;
    before.exp_avg.clear();
    before.exp_avg_sq.clear();
    Tensors after = before;
    for (std::size_t i = 0; i < 301; ++i) {
      const float g = before.grad[i];
      float& b = after.momentum_buffer[i];
      b = is_first ? g : 0.9F * b + (1 - dampening) * g;
      after.master[i] -= 0.25F * (nesterov ? g + 0.9F * b : b);
    }
    const UpdateResults results{before.grad, before.state(), after.state()};
    return wrong_formulas(setup, {&results, 1});
  };
  CHECK_FALSE(found(0.4F, false, false).has_value());
  CHECK(found(0, false, false) == Found{{"there were no dampening"}});
  CHECK(found(0.4F, false, true) == Found{{"t were one less"}});
  setup.hyper.dampening = 0;
  CHECK(found(0, true, false) == Found{{"there were Nesterov momentum"}});
  setup.hyper.nesterov = true;
  CHECK(found(0, false, false) == Found{{"there were no Nesterov momentum"}});
  CHECK_FALSE(found(0, true, false).has_value());
}

TEST_CASE("wrong formulas: as the end of a sentence") {
  CHECK(as_if({}).empty());
  CHECK(as_if({"a were b"}) == "as if a were b");
  CHECK(as_if({"a were b", "c were d"}) == "as if a were b, or as if c were d");
}

}  // namespace wrong_formulas_test
