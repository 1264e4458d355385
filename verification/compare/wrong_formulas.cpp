#include "verification/compare/wrong_formulas.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "verification/compare/bounds/update_bounds.hpp"

namespace zeroproof::verification {
namespace {

constexpr double allowed = 2;  // of the bound: inputs of a wrong formula may be rounded once more
constexpr std::int64_t enough = 3;  // results: a wrong formula may have fewer by chance

/// What a program is assumed to have computed.
struct Assumed {
  UpdateSetup moments, master;  ///< settings for the moments, and for the step made from them
  double grad_factor = 1;
  std::optional<double> new1 = {}, new2 = {};          ///< weights of the gradient, if not 1 - beta
  bool lost_exp_avg = false, lost_exp_avg_sq = false;  ///< 0 before the step
  bool old_exp_avg = false, old_exp_avg_sq = false;  ///< master is made from those before the step
  bool without_maximum = false;                      ///< master is made from exp_avg_sq
  double in_root = 0;                                ///< added to exp_avg_sq in the root

  bool adaptive() const { return traits_of(moments.hyper.rule).keeps[StateSlot::exp_avg_sq]; }
  bool decays() const { return moments.hyper.weight_decay != 0 && moments.hyper.lr != 0; }
  double correction1() const { return 1 - std::pow(master.beta1, static_cast<double>(master.t)); }
  double correction2() const { return 1 - std::pow(master.beta2, static_cast<double>(master.t)); }

  template <class Change>
  void both(const Change& change) {
    change(moments);
    change(master);
  }
};

double rounded(double x) { return to_float(to_bf16(static_cast<float>(x))); }
double cut(double x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) & 0xFFFF0000U);
}

double fp32_power(double beta, std::int64_t t) {
  return static_cast<float>(std::pow(beta, static_cast<double>(t)));
}

/// All settings in bf16.
template <double (*to)(double)>
void in_bf16(UpdateSetup& s) {
  for (double* x : {&s.hyper.lr, &s.hyper.eps, &s.hyper.weight_decay, &s.beta1, &s.beta2})
    *x = to(*x);
}

struct Formula {
  std::string_view text;
  /// False if the formula has no meaning for these settings.
  bool (*change)(Assumed&);
};

constexpr Formula catalogue[] = {
    // time
    {"t were one less",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { --s.t; });
       return a.master.t > 0;
     }},
    {"t were one more",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { ++s.t; });
       return true;
     }},
    {"there were no bias correction",
     [](Assumed& a) {
       a.master.hyper.bias_correction = false;
       return a.adaptive() && a.moments.hyper.bias_correction;
     }},
    {"there were a bias correction",
     [](Assumed& a) {
       a.master.hyper.bias_correction = true;  // of the moments it means nothing
       return a.adaptive() && !a.moments.hyper.bias_correction;
     }},
    {"exp_avg had no bias correction",
     [](Assumed& a) {
       a.master.hyper.lr *= a.correction1();
       a.master.hyper.weight_decay /= a.correction1();
       return a.adaptive() && a.moments.hyper.bias_correction;
     }},
    {"exp_avg_sq had no bias correction",
     [](Assumed& a) {
       a.master.hyper.lr /= a.correction1();
       a.master.hyper.weight_decay *= a.correction1();
       a.master.hyper.bias_correction = false;
       return a.adaptive() && a.moments.hyper.bias_correction;
     }},
    {"the bias corrections had exchanged betas",
     [](Assumed& a) {
       std::swap(a.master.beta1, a.master.beta2);  // used for the bias corrections alone
       return a.adaptive() && a.moments.hyper.bias_correction;
     }},
    // torch.optim.AdamW under torch.compile: its step count is a tensor
    {"1 - beta^t were computed from a power in fp32",
     [](Assumed& a) {
       const double c1 = 1 - fp32_power(a.master.beta1, a.master.t);
       const double c2 = 1 - fp32_power(a.master.beta2, a.master.t);
       const double root = std::sqrt(c2 / a.correction2());
       const double step = a.correction1() / c1 * root;
       a.master.hyper.lr *= step;
       a.master.hyper.weight_decay /= step;
       a.master.hyper.eps *= root;
       return a.adaptive() && a.moments.hyper.bias_correction && c1 > 0 && c2 > 0;
     }},
    // eps
    {"eps were inside the square root",
     [](Assumed& a) {
       a.in_root = a.master.hyper.eps * (a.master.hyper.bias_correction ? a.correction2() : 1.0);
       a.master.hyper.eps = 0x1p-126;
       return a.adaptive();
     }},
    {"eps were inside the square root, before the bias correction",
     [](Assumed& a) {
       a.in_root = a.master.hyper.eps;
       a.master.hyper.eps = 0x1p-126;
       return a.adaptive() && a.moments.hyper.bias_correction;
     }},
    {"eps were added before the bias correction",
     [](Assumed& a) {
       a.master.hyper.eps /= std::sqrt(a.correction2());
       return a.adaptive() && a.moments.hyper.bias_correction;
     }},
    {"eps were left out",
     [](Assumed& a) {
       a.master.hyper.eps = 0x1p-126;
       return a.adaptive();
     }},
    // decay
    {"the weight decay were left out",
     [](Assumed& a) {
       const bool had = a.decays();
       a.both([](UpdateSetup& s) { s.hyper.weight_decay = 0; });
       return had;
     }},
    {"the weight decay were applied twice",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { s.hyper.weight_decay *= 2; });
       return a.decays();
     }},
    {"the weight decay came after the step",
     [](Assumed& a) {
       const double kept = 1 - a.master.hyper.lr * a.master.hyper.weight_decay;
       a.master.hyper.lr *= kept;
       a.master.hyper.weight_decay /= kept;
       return a.decays() && kept > 0 &&
              traits_of(a.master.hyper.rule).decay == DecayKind::decoupled;
     }},
    {"the weight decay were not multiplied by lr",
     [](Assumed& a) {
       a.master.hyper.weight_decay /= a.master.hyper.lr;
       return a.decays() && traits_of(a.master.hyper.rule).decay == DecayKind::decoupled;
     }},
    {"the weight decay were added to the gradient",
     [](Assumed& a) {
       const bool decoupled = a.moments.hyper.rule == UpdateRule::adamw;
       a.both([](UpdateSetup& s) { s.hyper.rule = UpdateRule::adam; });
       return a.decays() && decoupled;
     }},
    {"the weight decay were not added to the gradient, but subtracted from master",
     [](Assumed& a) {
       const bool coupled = a.moments.hyper.rule == UpdateRule::adam;
       a.both([](UpdateSetup& s) { s.hyper.rule = UpdateRule::adamw; });
       return a.decays() && coupled;
     }},
    // betas
    {"beta1 and beta2 were exchanged",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { std::swap(s.beta1, s.beta2); });
       return a.adaptive() || a.moments.hyper.rule == UpdateRule::lion;
     }},
    {"exp_avg_sq were averaged with beta1",
     [](Assumed& a) {
       a.moments.beta2 = a.moments.beta1;
       return a.adaptive();
     }},
    {"exp_avg were averaged with beta2",
     [](Assumed& a) {
       a.moments.beta1 = a.moments.beta2;
       return a.adaptive();
     }},
    {"beta1 were rounded to bf16",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { s.beta1 = rounded(s.beta1); });
       return true;
     }},
    {"beta2 were rounded to bf16",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { s.beta2 = rounded(s.beta2); });
       return a.master.beta2 < 1;
     }},
    {"beta2 were rounded to bf16, except in the bias correction",
     [](Assumed& a) {
       a.moments.beta2 = rounded(a.moments.beta2);
       return true;
     }},
    {"beta2 were cut to bf16",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { s.beta2 = cut(s.beta2); });
       return true;
     }},
    {"beta2 were cut to bf16, except in the bias correction",
     [](Assumed& a) {
       a.moments.beta2 = cut(a.moments.beta2);
       return true;
     }},
    {"1 - beta1 were rounded to bf16",
     [](Assumed& a) {
       a.new1 = rounded(1 - a.moments.beta1);
       return true;
     }},
    {"1 - beta2 were rounded to bf16",
     [](Assumed& a) {
       a.new2 = rounded(1 - a.moments.beta2);
       return true;
     }},
    {"1 - beta1 were rounded to fp16",
     [](Assumed& a) {
       a.new1 = to_float(to_fp16(static_cast<float>(1 - a.moments.beta1)));
       return true;
     }},
    {"1 - beta2 were rounded to fp16",
     [](Assumed& a) {
       a.new2 = to_float(to_fp16(static_cast<float>(1 - a.moments.beta2)));
       return true;
     }},
    {"lr, betas, eps and weight decay were rounded to bf16",
     [](Assumed& a) {
       a.both(in_bf16<rounded>);
       return a.master.beta2 < 1;
     }},
    {"lr, betas, eps and weight decay were cut to bf16",
     [](Assumed& a) {
       a.both(in_bf16<cut>);
       return true;
     }},
    {"lr, betas, eps and weight decay were cut to bf16, except the betas of the bias corrections",
     [](Assumed& a) {
       const UpdateSetup given = a.master;
       a.both(in_bf16<cut>);
       a.master.beta1 = given.beta1;
       a.master.beta2 = given.beta2;
       return true;
     }},
    // rate and state
    {"lr were rounded to bf16",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { s.hyper.lr = rounded(s.hyper.lr); });
       return true;
     }},
    {"lr were squared",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { s.hyper.lr *= s.hyper.lr; });
       return true;
     }},
    {"the gradient had the other sign",
     [](Assumed& a) {
       a.both([](UpdateSetup& s) { s.hyper.maximize = !s.hyper.maximize; });
       return true;
     }},
    {"exp_avg had been 0 before the step",
     [](Assumed& a) {
       a.lost_exp_avg = true;
       return traits_of(a.moments.hyper.rule).keeps[StateSlot::exp_avg];
     }},
    {"exp_avg_sq had been 0 before the step",
     [](Assumed& a) {
       a.lost_exp_avg_sq = true;
       return a.adaptive();
     }},
    {"both moments had been 0 before the step",
     [](Assumed& a) {
       a.lost_exp_avg = a.lost_exp_avg_sq = true;
       return a.adaptive();
     }},
    {"master were made from exp_avg before the step",
     [](Assumed& a) {
       a.old_exp_avg = true;
       return a.adaptive();
     }},
    {"master were made from exp_avg_sq before the step",
     [](Assumed& a) {
       a.old_exp_avg_sq = true;
       return a.adaptive() && !a.moments.hyper.amsgrad;
     }},
    {"master were made from both moments before the step",
     [](Assumed& a) {
       a.old_exp_avg = a.old_exp_avg_sq = true;
       return a.adaptive() && !a.moments.hyper.amsgrad;
     }},
    {"master were made from exp_avg_sq, not from its maximum",
     [](Assumed& a) {
       a.without_maximum = true;
       return a.moments.hyper.amsgrad;
     }},
    // sgd
    {"there were no dampening",
     [](Assumed& a) {
       const bool had = a.moments.hyper.dampening != 0;
       a.both([](UpdateSetup& s) { s.hyper.dampening = 0; });
       return had;
     }},
    {"there were no Nesterov momentum",
     [](Assumed& a) {
       const bool has = a.moments.hyper.nesterov;
       a.both([](UpdateSetup& s) { s.hyper.nesterov = false; });
       return has;
     }},
    {"there were Nesterov momentum",
     [](Assumed& a) {
       const bool has = a.moments.hyper.nesterov;
       a.both([](UpdateSetup& s) { s.hyper.nesterov = true; });
       return !has && a.moments.hyper.momentum != 0;
     }},
};

float at(Span<const float> values, std::int64_t i) {
  return values.empty() ? 0 : values[static_cast<std::size_t>(i)];
}

/// Results of one formula, element by element.
class Model {
 public:
  explicit Model(const Assumed& assumed)
      : a_(assumed), moments_(bounds_of(assumed.moments)), master_(bounds_of(assumed.master)) {
    moments_.set_new_weights(a_.new1.value_or(1 - a_.moments.beta1),
                             a_.new2.value_or(1 - a_.moments.beta2));
  }

  UpdateBound of(const UpdateResults& r, std::int64_t i) const {
    const UpdateState& b = r.before;
    const ElementState before{at(b.master, i), a_.lost_exp_avg ? 0 : at(b.exp_avg, i),
                              a_.lost_exp_avg_sq ? 0 : at(b.exp_avg_sq, i), at(b.max_exp_avg_sq, i),
                              at(b.momentum_buffer, i)};
    const auto grad = static_cast<float>(at(r.grad, i) * a_.grad_factor);
    UpdateBound bound = r.grad_error.empty()
                            ? moments_(grad, before)
                            : moments_({grad, a_.grad_factor * r.grad_error[i]}, exactly(before));
    if (!a_.adaptive()) return bound;
    using Value = UpdateBounds::Value;
    const ElementBound& root =
        a_.moments.hyper.amsgrad && !a_.without_maximum ? bound.max_exp_avg_sq : bound.exp_avg_sq;
    const bool judged = bound.exp_avg.judged && root.judged;
    const Value m = a_.old_exp_avg ? Value{at(b.exp_avg, i), 0}
                                   : Value{bound.exp_avg.exact, bound.exp_avg.allowed};
    const Value v =
        a_.old_exp_avg_sq ? Value{at(b.exp_avg_sq, i), 0} : Value{root.exact, root.allowed};
    bound.master = master_.master({before.master, 0}, m, {v.exact + a_.in_root, v.error});
    bound.master.judged = bound.master.judged && judged;
    return bound;
  }

 private:
  static UpdateBounds bounds_of(const UpdateSetup& setup) {
    UpdateBounds bounds(setup.hyper, setup.t);
    bounds.set_betas(setup.beta1, setup.beta2);
    return bounds;
  }

  Assumed a_;
  UpdateBounds moments_, master_;
};

/// Calls visit(bound, result) for every result; bound_of(tensor, element) has the bounds. Ends after
/// an element for which a visit returned false.
template <class BoundOf, class Visit>
void each_result(Span<const UpdateResults> tensors, const BoundOf& bound_of, const Visit& visit) {
  for (const UpdateResults& r : tensors) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(r.grad.size()); ++i) {
      const UpdateBound bound = bound_of(r, i);
      bool goes_on = true;
      const auto one = [&](Span<const float> after, const ElementBound& its_bound) {
        if (!after.empty()) goes_on = visit(its_bound, after[i]) && goes_on;
      };
      one(r.after.master, bound.master);
      one(r.after.exp_avg, bound.exp_avg);
      one(r.after.exp_avg_sq, bound.exp_avg_sq);
      one(r.after.max_exp_avg_sq, bound.max_exp_avg_sq);
      one(r.after.momentum_buffer, bound.momentum_buffer);
      if (!goes_on) return;
    }
  }
}

/// True if a formula gives every result that its bound judges, and that are enough.
bool fits(const Assumed& assumed, Span<const UpdateResults> tensors) try {
  const Model model(assumed);
  bool all = true;
  std::int64_t judged = 0;
  each_result(
      tensors, [&](const UpdateResults& r, std::int64_t i) { return model.of(r, i); },
      [&](const ElementBound& bound, float got) {
        judged += bound.judged ? 1 : 0;
        all = all && (!bound.judged || bound.ratio(got) <= allowed);
        return all;
      });
  return all && judged >= enough;
} catch (const Error&) {
  return false;  // its settings are out of range
}

/// Results that the right formula does not give.
std::int64_t wrong_results(const Assumed& right, Span<const UpdateResults> tensors) {
  const Model model(right);
  std::int64_t count = 0;
  each_result(
      tensors, [&](const UpdateResults& r, std::int64_t i) { return model.of(r, i); },
      [&](const ElementBound& bound, float got) {
        count += bound.judged && !(bound.ratio(got) <= 1) ? 1 : 0;
        return true;
      });
  return count;
}

/// A power of two, a whole number or its inverse, if the buffer that is linear in the gradient
/// shows such a factor.
struct GradFactor {
  double value;
  std::string text;
};
std::optional<GradFactor> grad_factor(const Assumed& right, Span<const UpdateResults> tensors) {
  const OptimizerHyper& h = right.moments.hyper;
  const bool average = traits_of(h.rule).keeps[StateSlot::exp_avg];
  const double keep = average ? right.moments.beta1 : h.momentum;
  const bool is_first = !average && right.moments.t == 1;  // the buffer is the gradient itself
  const double take = average ? 1 - right.moments.beta1 : is_first ? 1 : 1 - h.dampening;
  const bool coupled = traits_of(h.rule).decay == DecayKind::coupled;
  double best = 0, factor = 0;
  for (const UpdateResults& r : tensors) {
    const Span<const float> was = average ? r.before.exp_avg : r.before.momentum_buffer;
    const Span<const float> is = average ? r.after.exp_avg : r.after.momentum_buffer;
    for (std::size_t i = 0; i < is.size(); ++i) {
      const double old = was.empty() || is_first ? 0 : keep * was[i];
      const double decay = coupled ? take * h.weight_decay * r.before.master[i] : 0;
      const double given = (h.maximize ? -take : take) * r.grad[i];
      const double made = is[i] - old - decay;
      const double clear = std::fabs(made) / (std::fabs(old) + std::fabs(decay) + 1e-37);
      if (given == 0 || made == 0 || !std::isfinite(made) || clear <= best) continue;
      best = clear;
      factor = made / given;
    }
  }
  if (!(factor > 0)) return std::nullopt;
  const auto near = [&](double value) { return std::fabs(factor / value - 1) < 1e-4; };
  const auto power = static_cast<int>(std::lround(std::log2(factor)));
  const auto times = std::llround(factor), parts = std::llround(1 / factor);
  const std::string multiplied = "the gradient were multiplied by ";
  if (near(1)) return std::nullopt;
  if (near(std::exp2(power)) && std::abs(power) > 6)
    return GradFactor{std::exp2(power), multiplied + "2^" + std::to_string(power)};
  if (times > 1 && times <= 65536 && near(static_cast<double>(times)))
    return GradFactor{static_cast<double>(times), multiplied + std::to_string(times)};
  if (parts > 1 && parts <= 65536 && near(1 / static_cast<double>(parts)))
    return GradFactor{1 / static_cast<double>(parts),
                      "the gradient were divided by " + std::to_string(parts)};
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<std::string>> wrong_formulas(const UpdateSetup& setup,
                                                       Span<const UpdateResults> tensors) {
  const RuleTraits& rule = traits_of(setup.hyper.rule);
  if (rule.trust_ratio || rule.matrices) return std::nullopt;
  Assumed right;
  right.moments = right.master = setup;
  if (wrong_results(right, tensors) < enough) return std::nullopt;
  if (fits(right, tensors)) return std::nullopt;  // within the same limit: others explain nothing
  std::vector<std::string> found;
  for (const Formula& formula : catalogue) {
    Assumed assumed = right;
    if (formula.change(assumed) && fits(assumed, tensors)) found.emplace_back(formula.text);
  }
  if (const std::optional<GradFactor> factor = grad_factor(right, tensors)) {
    Assumed assumed = right;
    assumed.grad_factor = factor->value;
    if (fits(assumed, tensors)) found.push_back(factor->text);
  }
  return found;
}

std::optional<double> share_of_bound(const UpdateSetup& setup, Span<const UpdateResults> tensors) {
  UpdateBounds bounds(setup.hyper, setup.t);
  bounds.set_betas(setup.beta1, setup.beta2);
  double worst = 0;
  std::int64_t judged = 0, results = 0;
  each_result(
      tensors,
      [&](const UpdateResults& r, std::int64_t i) {
        const UpdateState& b = r.before;
        const ElementState before{at(b.master, i), at(b.exp_avg, i), at(b.exp_avg_sq, i),
                                  at(b.max_exp_avg_sq, i), at(b.momentum_buffer, i)};
        return r.grad_error.empty() ? bounds(r.grad[i], before)
                                    : bounds({r.grad[i], r.grad_error[i]}, exactly(before));
      },
      [&](const ElementBound& bound, float got) {
        worst = std::max(worst, bound.ratio(got));
        judged += bound.judged ? 1 : 0;
        ++results;
        return true;
      });
  if (100 * judged < 99 * results && worst <= 1) return std::nullopt;
  return worst;
}

std::string as_if(const std::vector<std::string>& formulas) {
  std::string text;
  for (const std::string& formula : formulas)
    text += (text.empty() ? "as if " : ", or as if ") + formula;
  return text;
}

}  // namespace zeroproof::verification
