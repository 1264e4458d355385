// Phases norm and clip: the global norm, and the gradients that the update received.

#include <algorithm>
#include <cmath>
#include <functional>

#include "verification/compare/bounds/step_bounds.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/judge_run/run_element.hpp"
#include "verification/tools/judge_run/run_findings.hpp"
#include "verification/tools/judge_run/run_norm.hpp"

namespace zeroproof::verification {
namespace {

using bounds::Real;

std::string number_text(Real value) { return fmt::format("{:.9g}", static_cast<double>(value)); }

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

/// The bound with more roundings, in a format of 16 bits.
ElementBound with_roundings(ElementBound bound, int count, DType dtype) {
  bound.allowed += roundings(count, unit_of(dtype)) * std::fabs(bound.exact);
  return bound;
}

}  // namespace

ElementBound coefficient_of(const RankFile& rank, const ElementBound& norm, DType accumulation) {
  if (!rank.max_norm) return {1, 0, true};
  const auto value = static_cast<double>(norm.exact);
  ElementBound c = clip_coef_bound(value, *rank.max_norm, rank.clip_eps);
  const Real quotient = static_cast<Real>(*rank.max_norm) / (norm.exact + rank.clip_eps);
  Real more = 0;
  if (norm.allowed > 0) more += quotient * norm.allowed / (norm.exact + rank.clip_eps);
  if (accumulation != DType::fp32) more += roundings(4, unit_of(accumulation)) * quotient;
  if (!std::isfinite(more) || more == 0) return c;
  // 1 exactly only if the quotient is above 1 by more than its error.
  if (quotient - more - roundings(4, bounds::u) * quotient >= 1) return c;
  c.exact = std::min<Real>(quotient, 1);
  c.allowed += more;
  return c;
}

ElementBound clipped_bound(const RankFile& rank, const ElementBound& coefficient, float reduced,
                           DType accumulation) {
  const Real x = static_cast<Real>(reduced) / static_cast<Real>(rank.loss_scale);
  const bool scales = rank.loss_scale != 1;
  const int count = (coefficient.exact == 1 && coefficient.allowed == 0 ? 0 : 2) +
                    (scales && !is_power_of_two(rank.loss_scale) ? 2 : 0);
  ElementBound bound{x * coefficient.exact, 0, true};
  if (!std::isfinite(bound.exact) || bound.exact == 0) return bound;
  bound.allowed = std::fabs(x) * coefficient.allowed +
                  roundings(count, unit_of(accumulation)) * std::fabs(bound.exact);
  if (count > 0 || scales) bound.allowed += 2 * half_tiny_of(accumulation);
  if (bound.allowed > 0) bound.allowed *= bounds::slack;
  return bound;
}

namespace {

/// A wrong factor of all gradients.
struct WrongFactor {
  std::string text;
  Real value;
};

std::vector<WrongFactor> wrong_factors(const RankFile& rank, const RunNorm& norms, Real norm,
                                       Real c) {
  const Real scale = rank.loss_scale, right = c / scale;
  std::vector<WrongFactor> wrong;
  const bool scales = rank.loss_scale != 1;
  const WrongFactor divided_twice{
      fmt::format("the gradients were divided twice by the loss scale ({:g})", rank.loss_scale),
      right / scale};
  if (scales)
    wrong.push_back(
        {fmt::format("the gradients were not divided by the loss scale ({:g})", rank.loss_scale),
         c});
  if (!rank.max_norm) {
    if (scales) wrong.push_back(divided_twice);
    return wrong;
  }
  const Real limit = *rank.max_norm;
  const auto coefficient = [&](Real of) {
    return std::min<Real>(1, limit / (of + static_cast<Real>(rank.clip_eps)));
  };
  wrong.push_back({"the gradients were not clipped", 1 / scale});
  wrong.push_back({"the clip were applied twice", c * right});
  if (scales) {
    wrong.push_back({fmt::format("the coefficient were made with the norm of the scaled gradients "
                                 "(loss scale {:g})",
                                 rank.loss_scale),
                     coefficient(norm * scale) / scale});
    wrong.push_back(divided_twice);
  }
  wrong.push_back({"the gradients were scaled up to max_norm although their norm is below it",
                   limit / (norm + static_cast<Real>(rank.clip_eps)) / scale});
  wrong.push_back(
      {"the coefficient were 1 / norm, without max_norm", std::min<Real>(1, 1 / norm) / scale});
  if (norms.missing().empty()) {
    for (const RunNorm::Wrong& other : norms.wrong_norms(static_cast<std::size_t>(rank.rank)))
      wrong.push_back({other.text, coefficient(other.value) / scale});
  }
  return wrong;
}

/// The factor that all elements have in common.
std::string wrong_factor_text(const std::vector<WrongFactor>& factors, const RunValues& reduced,
                              const RunValues& got, Real right) {
  const auto all_have = [&](Real factor) {
    bool significant = false;
    for (std::size_t i = 0; i < got.values.size(); ++i) {
      const Real want = factor * static_cast<Real>(reduced.values[i]);
      const Real allowed =
          (0x1p-18L + 2 * unit_of(got.dtype)) * std::fabs(want) + 2 * half_tiny_of(got.dtype);
      if (!(std::fabs(static_cast<Real>(got.values[i]) - want) <= allowed)) return false;
      significant = significant || std::fabs(want) > 1024 * half_tiny_of(got.dtype);
    }
    return significant;
  };
  for (const WrongFactor& factor : factors) {
    if (std::fabs(factor.value - right) > 0x1p-16L * std::fabs(right) && all_have(factor.value))
      return "as if " + factor.text;
  }
  std::size_t most = 0;
  for (std::size_t i = 0; i < reduced.values.size(); ++i) {
    if (std::fabs(reduced.values[i]) > std::fabs(reduced.values[most])) most = i;
  }
  if (reduced.values.empty() || reduced.values[most] == 0 || right == 0) return "";
  const Real common = static_cast<Real>(got.values[most]) / static_cast<Real>(reduced.values[most]);
  if (!std::isfinite(common) || !all_have(common)) return "";
  return fmt::format("as if the gradient were {:.6g} times", static_cast<double>(common / right));
}

RunFindings clip_in(const RunStep& step, DType accumulation, const RunNorm& norms) {
  RunFindings found(step, RunPhase::clip);
  for (const RankFile& rank : step.ranks) {
    const auto r = static_cast<std::size_t>(rank.rank);
    ElementBound norm{0, 0, true};
    if (rank.max_norm) {
      if (rank.norm)
        norm = {static_cast<Real>(*rank.norm), 0, true};
      else if (!norms.missing().empty())
        found.missing(norms.missing());
      else
        norm = norms.bound();
      if (!rank.norm && (!norms.missing().empty() || !norm.judged)) continue;
    }
    const ElementBound c = coefficient_of(rank, norm, accumulation);
    if (!c.judged) {
      found.missing("a norm that fp32 has");
      continue;
    }
    const Real scale = rank.loss_scale;
    const bool scales = rank.loss_scale != 1;
    for (std::size_t p = 0; p < step.num_parameters(); ++p) {
      const RunParameter& parameter = rank.parameters[p];
      if (parameter.owned.empty()) continue;
      const std::optional<RunValues> reduced = rank.read("reduced", parameter);
      const std::optional<RunValues> grad = rank.read("before.grad", parameter);
      if (!reduced || !grad) {
        if (!reduced && grad) found.missing("reduced");
        if (reduced && !grad) found.missing("before.grad");
        continue;
      }
      const RunPlace place{r,
                           p,
                           "before.grad",
                           rank.max_norm || scales ? "is not reduced, unscaled and clipped"
                                                   : "is not the reduced gradient",
                           false,
                           grad->dtype};
      bool wrong = false;
      for (std::size_t i = 0; i < grad->values.size(); ++i) {
        ElementBound bound = clipped_bound(rank, c, reduced->values[i], accumulation);
        bound = stored_in(grad->dtype, bound);
        // Bits where nothing rounds.
        const double ratio = bound.ratio(grad->values[i]);
        wrong =
            found.add(place, static_cast<std::int64_t>(i), ratio, grad->values[i], bound.exact) ||
            wrong;
      }
      if (wrong && found.first_in(place))
        found.hint(wrong_factor_text(wrong_factors(rank, norms, norm.exact, c.exact), *reduced,
                                     *grad, c.exact / scale));
    }
  }
  if (accumulation != DType::fp32) found.note("clipped in " + std::string(name(accumulation)));
  return found;
}

}  // namespace

RunFindings judge_norm(const RunStep& step, const RunJudgeSettings& settings) {
  RunFindings found(step, RunPhase::norm);
  if (!step.ranks.front().applied) {
    found.note("a skipped step");
    return found;
  }
  const bool any =
      std::ranges::any_of(step.ranks, [](const RankFile& r) { return r.norm.has_value(); });
  if (!any) {
    found.missing("norm");
    return found;
  }
  const RunNorm norms(step, "reduced", step.ranks.front().loss_scale);
  if (!norms.missing().empty()) {
    found.missing(norms.missing());
    return found;
  }
  const ElementBound bound = norms.bound();
  const DType format = norms.format();
  const ElementBound narrow = with_roundings(bound, 3, format);
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const std::optional<double>& norm = step.ranks[r].norm;
    if (!norm) {
      found.missing(fmt::format("norm of rank {}", r));
      continue;
    }
    // In a wide bound a known mistake decides, if it is far enough from rounding errors.
    const std::string wrong = wrong_norm_text(norms, r, *norm, norms.is_wide() ? 1e-3 : 4e-5);
    if (!bound.judged && wrong.empty()) {
      found.note("not judged: more elements than [Bound:norm_large] has a bound for");
      continue;
    }
    double ratio = bound.judged ? bound.ratio(*norm) : HUGE_VAL;
    if (norms.is_wide() && !wrong.empty()) ratio = HUGE_VAL;
    if (ratio > 1 && !settings.only_fp32 && format != DType::fp32 && bound.judged &&
        wrong.empty() && is_number_of(format, static_cast<float>(*norm)) &&
        narrow.ratio(*norm) <= 1) {
      found.note("in " + std::string(name(format)));
      ratio = narrow.ratio(*norm);
    }
    const bool first = !found.has_first();
    found.add_scalar(r, "norm", "is not the norm of all gradients", ratio, number_text(*norm),
                     number_text(bound.exact));
    if (first && found.has_first()) found.hint(wrong);
  }
  return found;
}

RunFindings judge_clip(const RunStep& step, const RunJudgeSettings& settings) {
  if (!step.ranks.front().applied) {
    RunFindings found(step, RunPhase::clip);
    found.note("a skipped step");
    return found;
  }
  const RunNorm norms(step, "reduced", step.ranks.front().loss_scale);
  RunFindings found = clip_in(step, DType::fp32, norms);
  if (!step.ranks.front().max_norm) found.note("no clip");
  if (found.differing() == 0 || settings.only_fp32 || norms.format() == DType::fp32 ||
      !step.ranks.front().max_norm)
    return found;
  RunFindings narrow = clip_in(step, norms.format(), norms);
  return narrow.differing() == 0 ? narrow : found;
}

}  // namespace zeroproof::verification
