// Phase update of muon: momenta by their bound, matrices by a bound or by the choices that they show.

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/error.hpp"
#include "common/base/same_value.hpp"
#include "verification/compare/bounds/muon_bounds.hpp"
#include "verification/compare/bounds/muon_step_bound.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/identify/muon_text.hpp"
#include "verification/tools/judge_run/run_assembled.hpp"
#include "verification/tools/judge_run/run_element.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {
namespace {

/// Where the elements of a whole matrix were recorded.
struct MatrixPlace {
  std::size_t parameter = 0;
  std::vector<std::size_t> rank;    ///< that owns an element
  std::vector<std::int64_t> index;  ///< of an element on its rank
};

/// Matrices with the same settings and t, of one replica.
struct UpdatedMatrices {
  RecordedStep step;
  std::vector<MatrixPlace> places;
};

OptimizerHyper contract_hyper(const DialectHyper& h, MomentumFamily family) {
  OptimizerHyper hyper;
  hyper.rule = UpdateRule::muon;
  hyper.lr = h.lr;
  hyper.weight_decay = h.weight_decay;
  hyper.momentum = h.momentum;
  hyper.maximize = h.maximize;
  hyper.muon.family = family;
  return hyper;
}

/// The elements of one tensor, place by place.
class MatrixElements {
 public:
  MatrixElements(const MatrixPlace& place, const char* buffer, const char* what, RunFindings& found)
      : place_(&place), buffer_(buffer), what_(what), found_(&found) {}

  /// Calls ratio(i), which is above 1 for a wrong element, and want(i).
  template <class Ratio, class Want>
  void add(const std::vector<float>& got, const Ratio& ratio, const Want& want) const {
    const std::size_t ranks = got.empty() ? 0 : std::ranges::max(place_->rank) + 1;
    for (std::size_t r = 0; r < ranks; ++r) {  // elements of a place come together
      const RunPlace at{r, place_->parameter, buffer_, what_, false, DType::fp32};
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (place_->rank[i] == r) found_->add(at, place_->index[i], ratio(i), got[i], want(i));
      }
    }
  }

 private:
  const MatrixPlace* place_;
  const char *buffer_, *what_;
  RunFindings* found_;
};

void judge_momenta(const UpdatedMatrices& matrices, MomentumFamily family, RunFindings& found) {
  const MuonBounds bounds(contract_hyper(matrices.step.hyper, family));
  for (std::size_t k = 0; k < matrices.places.size(); ++k) {
    const StepTensor& t = matrices.step.tensors[k];
    std::vector<ElementBound> want;
    for (std::size_t i = 0; i < t.numel(); ++i)
      want.push_back(bounds.momentum(t.grad[i], t.before.momentum_buffer[i]).exp_avg);
    const std::vector<float>& got = t.after.momentum_buffer;
    MatrixElements(matrices.places[k], "after.momentum_buffer", "is in no legal order of the rule",
                   found)
        .add(
            got, [&](std::size_t i) { return want[i].ratio(got[i]); },
            [&](std::size_t i) { return want[i].judged ? want[i].exact : std::nanl(""); });
  }
}

/// The family that the settings give, or the one with fewer differences.
MomentumFamily judge_momenta(const UpdatedMatrices& matrices, RunFindings& found) {
  const std::optional<MomentumFamily> given = matrices.step.hyper.muon.family;
  RunFindings ema = found, heavy_ball = found;
  if (!given || *given == MomentumFamily::ema) judge_momenta(matrices, MomentumFamily::ema, ema);
  if (!given || *given == MomentumFamily::heavy_ball)
    judge_momenta(matrices, MomentumFamily::heavy_ball, heavy_ball);
  const bool is_ema =
      given ? *given == MomentumFamily::ema : ema.differing() <= heavy_ball.differing();
  found = is_ema ? std::move(ema) : std::move(heavy_ball);
  return is_ema ? MomentumFamily::ema : MomentumFamily::heavy_ball;
}

/// The choices that the step should have: given ones, others as found.
struct Expected {
  MuonChoice choice;
  MuonScaling scaling;
  double factor = 1;
};

Expected expected_of(const GivenMuon& given, const MuonFinding& found) {
  Expected e{found.choice, {}, given.scale_factor};
  if (given.nesterov && *given.nesterov != (e.choice.direction != MuonDirection::momentum))
    e.choice.direction = *given.nesterov ? MuonDirection::nesterov : MuonDirection::momentum;
  if (given.coefficients) e.choice.polynomials.set = *given.coefficients;
  if (given.steps) e.choice.polynomials.steps = *given.steps;
  if (given.scale)
    e.scaling = {*given.scale};
  else if (!found.scales.empty() && found.scales.front().factor == 1)
    e.scaling = found.scales.front().scaling;
  return e;
}

double scale_of(const Expected& e, const StepTensor& t) {
  return e.factor * scale_of(e.scaling, t.rows, t.columns);
}

/// Shares of the bound of all evaluated matrices, the largest of them; nothing if one has no bound.
std::optional<double> share_of_bound(const UpdatedMatrices& matrices, const MuonFinding& found,
                                     const Expected& expected, MomentumFamily family) try {
  const DialectHyper& h = matrices.step.hyper;
  if (found.input != MuonInput::fp32 ||
      expected.choice.direction == MuonDirection::nesterov_corrected)
    return std::nullopt;
  OptimizerHyper hyper = contract_hyper(h, family);
  hyper.nesterov = expected.choice.direction == MuonDirection::nesterov;
  NewtonSchulzOptions& options = hyper.muon.newton_schulz;
  options.coefficients = expected.choice.polynomials.set;
  options.steps = expected.choice.polynomials.steps;
  options.floor = h.muon.floor.value_or(NormFloor::clamp);
  options.eps = std::max(h.muon.eps.value_or(0), 0x1p-126);
  if (!h.muon.floor || !h.muon.eps) return std::nullopt;
  double most = 0;
  for (const MuonMatrix& m : found.matrices) {
    const StepTensor& t = *m.tensor;
    const std::optional<double> share =
        muon_step_share(hyper, scale_of(expected, t),
                        {static_cast<std::int64_t>(t.rows), static_cast<std::int64_t>(t.columns),
                         t.grad, t.after.momentum_buffer, t.before.master, t.after.master});
    if (!share || !(*share <= 1)) return std::nullopt;
    most = std::max(most, *share);
  }
  return most;
} catch (const Error&) {
  return std::nullopt;
}

/// The elements that are farthest from what the settings say.
void add_wrong(const UpdatedMatrices& matrices, const MuonFinding& shown, const Expected& expected,
               MomentumFamily family, RunFindings& found) {
  constexpr double far = 0.5;  // of the mean element of the update
  const DialectHyper& h = matrices.step.hyper;
  struct Apart {
    std::size_t k = 0;
    std::vector<double> want, apart;  ///< in units of the mean element of the update
  };
  std::vector<Apart> all;
  double most = 0;
  for (const MuonMatrix& m : shown.matrices) {
    const StepTensor& t = *m.tensor;
    const Matrix e = muon_direction(t, h, expected.choice.direction, family);
    const Matrix o =
        exact_orthogonal(e, expected.choice.polynomials, h.muon.divisor(e.norm())).back();
    const double rate = h.lr * scale_of(expected, t);
    const double mean = rate * o.norm() / std::sqrt(static_cast<double>(t.numel()));
    Apart& a = all.emplace_back();
    a.k = static_cast<std::size_t>(m.tensor - matrices.step.tensors.data());
    for (std::size_t i = 0; i < t.numel(); ++i) {
      const double p = t.before.master[i];
      a.want.push_back(p - h.lr * h.weight_decay * p - rate * o.values[i]);
      const double apart = std::fabs(t.after.master[i] - a.want.back()) / mean;
      a.apart.push_back(std::isnan(apart) ? HUGE_VAL : apart);
      most = std::max(most, a.apart.back());
    }
  }
  for (const Apart& a : all) {
    const std::vector<float>& got = matrices.step.tensors[a.k].after.master;
    const double limit = std::min(far, most / 2);
    MatrixElements(matrices.places[a.k], "after.master", "is not the update of the settings", found)
        .add(
            got, [&](std::size_t i) { return a.apart[i] > limit ? HUGE_VAL : 0; },
            [&](std::size_t i) { return static_cast<long double>(a.want[i]); });
  }
}

/// |O|_F is at most about 2 sqrt(min(rows, columns)) for every set and every rounding.
void judge_size(const StepTensor& t, const DialectHyper& h, double scale,
                const MatrixElements& elements) {
  const auto finite = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
  };
  if (!finite(t.grad) || !finite(t.after.momentum_buffer) || !finite(t.before.master)) return;
  const std::vector<float>& got = t.after.master;
  const auto moved = [&](std::size_t i) {
    const double p = t.before.master[i];
    return std::fabs(got[i] - p + h.lr * h.weight_decay * p);
  };
  double squares = 0, of_parameter = 0, of_momentum = 0, most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double p = t.before.master[i], m = t.after.momentum_buffer[i];
    squares += moved(i) * moved(i);
    of_parameter += p * p;
    of_momentum += m * m;
    most = std::max(most, moved(i));
  }
  const double size = h.lr * scale * std::sqrt(static_cast<double>(std::min(t.rows, t.columns)));
  const double rounded = 0x1p-22 * std::sqrt(of_parameter);
  // A small momentum may be below the floor, and an update below the roundings.
  const bool moves = of_momentum > 1e-6 && size > 0x1p6 * rounded;
  const bool still = moves && t.after.master == t.before.master;
  const bool far = h.muon.scale && finite(got) && !(std::sqrt(squares) <= 3 * size + rounded);
  if (!still && !far && finite(got)) return;
  elements.add(
      got,
      [&](std::size_t i) {
        return still || !std::isfinite(got[i]) || (far && moved(i) > most / 2) ? HUGE_VAL : 0;
      },
      [](std::size_t) { return std::nanl(""); });
}

/// Matrices that are not evaluated: without a direction the decay alone moves them; others stay finite, move, and not
/// farther than an orthogonal matrix.
void judge_others(const UpdatedMatrices& matrices, const MuonFinding& shown,
                  const Expected& expected, RunFindings& found) {
  const DialectHyper& h = matrices.step.hyper;
  const MuonBounds bounds(contract_hyper(h, MomentumFamily::ema));
  for (std::size_t k = 0; k < matrices.places.size(); ++k) {
    const StepTensor& t = matrices.step.tensors[k];
    const bool evaluated =
        std::ranges::any_of(shown.matrices, [&](const MuonMatrix& m) { return m.tensor == &t; });
    const auto is_zero = [](float x) { return x == 0; };
    const bool still = std::ranges::all_of(t.grad, is_zero) &&
                       std::ranges::all_of(t.after.momentum_buffer, is_zero);
    if (evaluated) continue;
    const std::vector<float>& got = t.after.master;
    if (!still && h.lr != 0) {
      judge_size(t, h, scale_of(expected, t),
                 MatrixElements(matrices.places[k], "after.master",
                                "did not move, or farther than an orthogonal matrix", found));
      continue;
    }
    const auto want = [&](std::size_t i) { return bounds.master(0, 0, t.before.master[i]); };
    MatrixElements(matrices.places[k], "after.master", "is not its decay alone", found)
        .add(
            got, [&](std::size_t i) { return want(i).ratio(got[i]); },
            [&](std::size_t i) { return want(i).exact; });
  }
}

std::string unjudged_text(const MuonFinding& shown) {
  std::string text;
  const auto add = [&](std::int64_t count, const char* why) {
    if (count > 0)
      text += fmt::format("{}{} {} {}", text.empty() ? "muon: not judged: " : ", ", count,
                          count == 1 ? "matrix" : "matrices", why);
  };
  add(shown.tiny, "near the floor of the norm");
  add(shown.large, "too large or without a finite norm");
  add(shown.unclear, "with roundings as large as the result");
  add(shown.nonfinite, "with NaN or an infinity in the gradient or the parameter");
  return text;
}

void judge_matrices(const UpdatedMatrices& matrices, RunFindings& found) {
  const bool had_first = found.has_first();
  const DialectHyper& h = matrices.step.hyper;
  const MomentumFamily family = judge_momenta(matrices, found);
  if (h.lr == 0) {
    judge_others(matrices, {}, {}, found);
    return;
  }
  const Identification identified = identify(matrices.step);
  const MuonFinding& shown = *identified.muon;
  const Expected expected = expected_of(h.muon, shown);
  std::vector<std::string> mistakes = muon_mistakes(matrices.step, shown);
  std::int64_t numel = 0;
  for (const MuonMatrix& m : shown.matrices) numel += static_cast<std::int64_t>(m.tensor->numel());
  const std::optional<double> share = share_of_bound(matrices, shown, expected, family);
  // A distance beyond the noise may still be that of a legal order; a known mistake is none, nor are single elements that
  // have nearly all of it.
  const auto is_single = [](const MuonMatrix& m) {
    return m.element > std::max(m.allowed_element, 16 * m.distance);
  };
  if (share && !shown.near && shown.hint.empty() && std::ranges::none_of(shown.matrices, is_single))
    mistakes.clear();
  const std::int64_t right = found.differing();
  judge_others(matrices, shown, expected, found);
  const bool of_others =
      found.differing() > right && shown.near && mistakes.size() == 1 && shown.overflows;
  if (const std::string text = unjudged_text(shown); !text.empty()) {
    found.note(text);
    if (numel == 0 || shown.large > 0) found.partial();
  }
  if (identified.unchanged)
    mistakes.insert(mistakes.begin(), "as if the step had not been applied: nothing changed");
  if (!mistakes.empty()) {
    if (!of_others) add_wrong(matrices, shown, expected, family, found);
    if (!had_first) found.hint(mistakes.front());
  } else if (share) {
    found.add_right(numel, *share);
    found.note("muon: within the bound of fp32");
  } else if (numel > 0) {
    const std::vector<std::string> names = shown_names(identified.fits);
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " or ") + name;
    if (text.empty())
      text = direction_text(shown.choice.direction) + " with " +
             polynomials_text(shown.choice.polynomials);
    found.add_right(numel, 0);
    found.named();
    found.note("muon: named " + text);
  }
}

/// One matrix of a replica, whole; nothing if it cannot be judged, with the reason in `found`.
std::optional<StepTensor> whole_matrix(const RunStep& step, std::size_t p, std::size_t replica,
                                       MatrixPlace& place, RunFindings& found) {
  const RunParameter& parameter = step.parameter(p);
  StepTensor t;
  t.name = parameter.name;
  t.rows = static_cast<std::size_t>(parameter.shape[0]);
  t.columns = static_cast<std::size_t>(parameter.shape[1]);
  bool narrow = false;
  const auto read = [&](const std::string& kind, std::vector<float>& into) {
    AssembledTensor whole = assemble(step, p, kind, replica);
    if (!whole.complete) return false;
    narrow = narrow || (kind != "before.grad" && whole.dtype != DType::fp32);
    into = std::move(whole.values);
    place.rank = std::move(whole.owner);
    return true;
  };
  const bool has_momentum = read("before.momentum_buffer", t.before.momentum_buffer);
  if (!has_momentum) t.before.momentum_buffer.assign(t.rows * t.columns, 0.0F);
  if (!read("before.grad", t.grad) || !read("before.master", t.before.master) ||
      !read("after.master", t.after.master) ||
      !read("after.momentum_buffer", t.after.momentum_buffer)) {
    found.missing("before.* and after.* of all owners");
    return std::nullopt;
  }
  if (narrow) {
    found.note("muon: not judged: a matrix or its momentum has 16 bits");
    found.partial();
    return std::nullopt;
  }
  place.parameter = p;
  if (parameter.replicated) place.rank.assign(t.numel(), replica);
  std::map<std::size_t, std::int64_t> next;
  for (const std::size_t rank : place.rank) place.index.push_back(next[rank]++);
  return t;
}

bool same_bits(const StepTensor& a, const StepTensor& b) {
  const auto same = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::ranges::equal(x, y, same_value);
  };
  return same(a.grad, b.grad) && same(a.before.master, b.before.master) &&
         same(a.before.momentum_buffer, b.before.momentum_buffer) &&
         same(a.after.master, b.after.master) &&
         same(a.after.momentum_buffer, b.after.momentum_buffer);
}

}  // namespace

void judge_muon(const RunStep& step, RunFindings& found) {
  const RankFile& first = step.ranks.front();
  using BySettings = std::map<std::pair<std::size_t, std::int64_t>, UpdatedMatrices>;
  BySettings of_first;
  for (std::size_t replica = 0; replica < step.ranks.size(); ++replica) {
    if (!step.ranks[replica].applied) continue;
    BySettings groups;
    for (std::size_t p = 0; p < step.num_parameters(); ++p) {
      const RunParameter& parameter = step.parameter(p);
      if (first.group_of(parameter).is_other ||
          first.group_of(parameter).hyper.rule != UpdateRule::muon || parameter.numel == 0 ||
          !step.any_has("before.grad", p) || (replica > 0 && !parameter.replicated))
        continue;
      if (parameter.sampled()) {
        found.missing("whole matrices, which Newton-Schulz needs");
        found.partial();
        continue;
      }
      const std::int64_t t = step.parameter(p, step.owners(p).front()).t;
      if (t < 1) {
        found.add_scalar(replica, "t of " + parameter.name, "does not count this update", HUGE_VAL,
                         std::to_string(t), "1 or more");
        found.hint("as if the step count had not increased");
        continue;
      }
      MatrixPlace place;
      std::optional<StepTensor> tensor = whole_matrix(step, p, replica, place, found);
      if (!tensor) continue;
      UpdatedMatrices& matrices = groups[{parameter.group, t}];
      matrices.step.hyper = first.group_of(parameter).hyper;
      matrices.step.hyper.t = t;
      matrices.step.tensors.push_back(std::move(*tensor));
      matrices.places.push_back(std::move(place));
    }
    for (auto& [settings, matrices] : groups) {
      const auto judged = of_first.find(settings);
      // Copies with the bits of the first replica have its verdict.
      if (replica > 0 && judged != of_first.end() &&
          std::ranges::equal(matrices.step.tensors, judged->second.step.tensors, same_bits))
        continue;
      judge_matrices(matrices, found);
    }
    if (replica == 0) of_first = std::move(groups);
  }
}

}  // namespace zeroproof::verification
