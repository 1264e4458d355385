#include "verification/tools/judge_run/pair_phases.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/error.hpp"
#include "common/base/same_value.hpp"
#include "verification/compare/bounds/update_bounds.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/identify/identify.hpp"
#include "verification/tools/judge_run/reduced_way.hpp"
#include "verification/tools/judge_run/run_assembled.hpp"
#include "verification/tools/judge_run/run_element.hpp"
#include "verification/tools/judge_run/run_findings.hpp"
#include "verification/tools/judge_run/run_norm.hpp"

namespace zeroproof::verification {
namespace {

using bounds::Real;
using BoundOf = std::function<ElementBound(std::size_t i)>;

constexpr ElementBound no_bound = {};

std::string shown_number(double value) { return fmt::format("{:.9g}", value); }

/// The same tensor of both sides; not complete if a side lacks it.
struct BothTensors {
  std::array<AssembledTensor, 2> of;

  bool complete() const { return of[0].complete && of[1].complete; }
  bool same() const {
    return complete() && std::ranges::equal(of[0].values, of[1].values, same_value);
  }
  /// Values divided by the loss scale of their side if `unscaled`.
  PairTensor tensor(const RunPair& pair, const RunPair::Common& p, const std::string& buffer,
                    bool unscaled = false) const {
    PairTensor tensor{p, buffer, {}, {of[0].owner, of[1].owner}, {of[0].dtype, of[1].dtype}};
    for (std::size_t s = 0; s < 2; ++s) {
      const double scale = unscaled ? pair.side(s).ranks.front().loss_scale : 1;
      for (const float x : of[s].values) tensor.values[s].push_back(static_cast<double>(x) / scale);
    }
    return tensor;
  }
};

BothTensors both(const RunPair& pair, const RunPair::Common& p, const std::string& kind) {
  return {{assemble(pair.side(0), p[0], kind), assemble(pair.side(1), p[1], kind)}};
}

/// A parameter without recorded elements takes no part.
bool is_empty(const RunPair& pair, const RunPair::Common& p) {
  return pair.side(0).owners(p[0]).empty() && pair.side(1).owners(p[1]).empty();
}

/// Says which side lacks a tensor, if the other has it.
void add_missing(PairFindings& found, const BothTensors& tensors, const std::string& kind) {
  for (std::size_t s = 0; s < 2; ++s) {
    if (!tensors.of[s].complete) found.missing(fmt::format("{} of {}", kind, side_names[s]));
  }
}

/// Replicas of a tensor have the bits of the first one of their side.
void compare_replicas(const RunPair& pair, const RunPair::Common& p, const std::string& kind,
                      const BothTensors& first, PairFindings& found) {
  for (std::size_t s = 0; s < 2; ++s) {
    const RunStep& step = pair.side(s);
    if (!step.parameter(p[s]).replicated || !first.of[s].complete) continue;
    for (std::size_t r = 1; r < step.ranks.size(); ++r) {
      const RunParameter& parameter = step.parameter(p[s], r);
      const auto values = step.ranks[r].read(kind, parameter);
      if (!values) continue;
      const auto [mine, theirs] =
          std::ranges::mismatch(values->values, first.of[s].values, same_value);
      const bool same = mine == values->values.end();
      if (same) continue;
      const auto at = static_cast<std::size_t>(mine - values->values.begin());
      const std::int64_t element = first.of[s].elements[at];
      found.add_scalar(r, kind, parameter.name + coordinates_of(parameter, element), HUGE_VAL,
                       fmt::format("{} on rank {}", shown_value(values->dtype, *mine), r),
                       shown_value(values->dtype, *theirs) + " on rank 0", false,
                       fmt::format("is not that of rank 0 of {}", side_names[s]));
      found.hint(fmt::format("the replicas of {} differ", side_names[s]));
    }
  }
}

/// Of finite values: nothing is near an infinite one.
double largest_of_values(const PairTensor& tensor) {
  double most = 0;
  for (const std::vector<double>& side : tensor.values) {
    for (const double x : side) most = std::isfinite(x) ? std::max(most, std::fabs(x)) : most;
  }
  return most;
}

ElementBound scaled_by(ElementBound bound, double divisor) {
  if (divisor == 1) return bound;
  bound.exact /= divisor;
  bound.allowed = bound.allowed / divisor * bounds::slack;
  return bound;
}

/// Gradients of all ranks and micro-batches, element by element.
struct LeafSums {
  std::vector<std::vector<float>> leaves;  ///< as recorded, with the loss scale
  DType dtype = DType::fp32;
  double scale = 1, parts = 1;
  std::int64_t micro_batches = 0;
};

/// Nothing if there are none.
std::optional<LeafSums> leaf_sums(const RunStep& step, std::size_t p) {
  const RankFile& first = step.ranks.front();
  if (!first.has("leaf.0", first.parameters[p])) return std::nullopt;
  LeafSums sums;
  sums.scale = first.loss_scale;
  sums.parts = first.mean ? static_cast<double>(step.world()) : 1;
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    for (std::int64_t m = 0; m < step.ranks[r].micro_batches; ++m) {
      auto leaf = step.ranks[r].read("leaf." + std::to_string(m), step.parameter(p, r));
      if (!leaf) continue;
      sums.dtype = leaf->dtype;
      sums.leaves.push_back(std::move(leaf->values));
    }
  }
  return sums;
}

/// Terms of an element as the sum has them, in ascending order, without zeros.
std::vector<double> normalised_terms(const LeafSums& sums, std::size_t i) {
  std::vector<double> terms;
  for (const std::vector<float>& leaf : sums.leaves) {
    if (leaf[i] != 0) terms.push_back(static_cast<double>(leaf[i]) / sums.scale / sums.parts);
  }
  // A NaN has no place in an order, and equals no other term.
  if (std::ranges::none_of(terms, [](double x) { return std::isnan(x); })) std::ranges::sort(terms);
  return terms;
}

struct Sum {
  Real value = 0, magnitudes = 0;
};
Sum sum_of(const std::vector<double>& terms) {
  Sum sum;
  for (const double x : terms) {
    sum.value += x;
    sum.magnitudes += std::fabs(static_cast<Real>(x));
  }
  return sum;
}

/// True if the forward passes of this step used parameters with the same bits on both sides.
bool same_parameters(const RunPair& pair, const RunPair* before) {
  for (const RunPair::Common& p : pair.common()) {
    if (is_empty(pair, p)) continue;
    if (before != nullptr) {
      const auto then = std::ranges::find_if(before->common(), [&](const RunPair::Common& q) {
        return before->parameter(q).name == pair.parameter(p).name;
      });
      if (then != before->common().end()) {
        const auto a = before->side(0).ranks.front().read("model", before->parameter(*then));
        const auto b =
            before->side(1).ranks.front().read("model", before->side(1).parameter((*then)[1]));
        if (a && b) {
          if (!std::ranges::equal(a->values, b->values, same_value)) return false;
          continue;
        }
      }
    }
    if (!both(pair, p, "before.master").same()) return false;
  }
  return true;
}

struct NamedSetting {
  const char* name;
  double (*value)(const DialectHyper&);
};

constexpr std::array hyper_settings = {
    NamedSetting{"lr", [](const DialectHyper& h) { return h.lr; }},
    NamedSetting{"beta1", [](const DialectHyper& h) { return h.beta1; }},
    NamedSetting{"beta2", [](const DialectHyper& h) { return h.beta2; }},
    NamedSetting{"eps", [](const DialectHyper& h) { return h.eps; }},
    NamedSetting{"weight_decay", [](const DialectHyper& h) { return h.weight_decay; }},
    NamedSetting{"bias_correction",
                 [](const DialectHyper& h) { return h.bias_correction ? 1.0 : 0.0; }},
    NamedSetting{"amsgrad", [](const DialectHyper& h) { return h.amsgrad ? 1.0 : 0.0; }},
    NamedSetting{"maximize", [](const DialectHyper& h) { return h.maximize ? 1.0 : 0.0; }},
    NamedSetting{"momentum", [](const DialectHyper& h) { return h.momentum; }},
    NamedSetting{"dampening", [](const DialectHyper& h) { return h.dampening; }},
    NamedSetting{"nesterov", [](const DialectHyper& h) { return h.nesterov ? 1.0 : 0.0; }}};

/// "B has 2 times the value of A: as if scaled with the 2 ranks of B"; "" for other factors.
std::string setting_hint(double a, double b, const RunPair& pair) {
  if (a == 0 || b == 0 || a == b) return "";
  for (std::size_t s = 0; s < 2; ++s) {
    const auto world = static_cast<double>(pair.side(s).world());
    for (const double factor : {world, 1 / world, std::sqrt(world), 1 / std::sqrt(world)}) {
      if (world > 1 && std::fabs(b / a - factor) < 1e-6 * factor)
        return fmt::format(
            "B has {:.6g} times the value of A: as if scaled with the {} ranks of {}", b / a, world,
            side_names[s]);
    }
  }
  return "";
}

/// All ranks of both sides as pairs with rank 0 of A, which is left out.
template <class Visit>
void visit_ranks(const RunPair& pair, const Visit& visit) {
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::size_t r = s == 0 ? 1 : 0; r < pair.side(s).ranks.size(); ++r)
      visit(s, r, pair.side(s).ranks[r]);
  }
}

/// "0.1 in A" and "0.2 in B"; of two ranks of A "0.1 on rank 0 of A".
std::array<std::string, 2> texts_of(std::size_t s, std::size_t r, const std::string& first,
                                    const std::string& other) {
  if (s == 1) return {first + " in A", fmt::format("{} on rank {} of B", other, r)};
  return {first + " on rank 0 of A", fmt::format("{} on rank {} of A", other, r)};
}

}  // namespace

PairFindings compare_settings(const RunPair& pair) {
  PairFindings found(pair, PairPhase::settings);
  const RankFile& first = pair.side(0).ranks.front();
  for (const RunPair::Common& p : pair.common()) {
    const RunGroup& group = first.group_of(first.parameters[p[0]]);
    visit_ranks(pair, [&](std::size_t s, std::size_t r, const RankFile& rank) {
      const RunGroup& other = rank.group_of(rank.parameters[p[s]]);
      if (group.is_other) {
        if (group.text != other.text) found.note("settings of another rule were not compared");
        return;
      }
      for (const NamedSetting& setting : hyper_settings) {
        const double a = setting.value(group.hyper), b = setting.value(other.hyper);
        const auto texts = texts_of(s, r, shown_number(a), shown_number(b));
        const bool is_first = !found.has_first();
        found.add_scalar(r, setting.name, pair.parameter(p).name, a == b ? 0 : HUGE_VAL, texts[0],
                         texts[1], a == b, "is another setting");
        if (is_first && found.has_first()) found.hint(setting_hint(a, b, pair));
      }
    });
  }
  visit_ranks(pair, [&](std::size_t s, std::size_t r, const RankFile& rank) {
    const auto compare = [&](const char* name, const std::string& a, const std::string& b) {
      const auto texts = texts_of(s, r, a, b);
      found.add_scalar(r, name, "", a == b ? 0 : HUGE_VAL, texts[0], texts[1], a == b,
                       "is another setting");
    };
    const auto limit = [](const RankFile& of) {
      return of.max_norm ? shown_number(*of.max_norm) : std::string("no clip");
    };
    compare("max_norm", limit(first), limit(rank));
    if (!first.max_norm || !rank.max_norm) return;
    compare("norm_type", shown_number(first.norm_type), shown_number(rank.norm_type));
    compare("clip_eps", shown_number(first.clip_eps), shown_number(rank.clip_eps));
  });
  return found;
}

PairFindings compare_state(const RunPair& pair, const RunPair* before, bool is_first) {
  PairFindings found(pair, PairPhase::state);
  for (const RunPair::Common& p : pair.common()) {
    if (is_empty(pair, p)) continue;
    const RankFile& first = pair.side(0).ranks.front();
    std::optional<RunPair::Common> then;
    if (before != nullptr) {
      for (const RunPair::Common& q : before->common()) {
        if (before->parameter(q).name == pair.parameter(p).name) then = q;
      }
    }
    for (const std::string& buffer : run_buffers(first.group_of(first.parameters[p[0]]))) {
      BothTensors now = both(pair, p, "before." + buffer);
      if (!now.of[0].complete && !now.of[1].complete) continue;
      const std::string name = pair.parameter(p).name;
      if (!now.complete()) {
        const std::size_t lacks = now.of[0].complete ? 1 : 0;
        AssembledTensor& none = now.of[lacks];
        const bool had = then && both(*before, *then, "after." + buffer).of[lacks].complete;
        if (had) {
          found.add_scalar(0, "before." + buffer, name, HUGE_VAL,
                           lacks == 0 ? "none in A" : "a state in A",
                           lacks == 1 ? "none in B" : "a state in B", false, "is missing");
          found.hint(fmt::format("lost in {} between the steps, as on resume", side_names[lacks]));
          continue;
        }
        // The first update creates it.
        if (buffer == "master" || pair.side(lacks).parameter(p[lacks]).t > 1) {
          add_missing(found, now, "before." + buffer);
          continue;
        }
        std::ranges::fill(none.values, 0.0F);
      }
      std::optional<BothTensors> old;
      if (then) old = both(*before, *then, "after." + buffer);
      PairTensor tensor = now.tensor(pair, p, "before." + buffer);
      if (is_first) tensor.cause = "the recordings do not begin with the same parameters and state";
      found.add(tensor, [&](std::size_t i) -> std::optional<double> {
        if (std::isnan(now.of[0].values[i]) || std::isnan(now.of[1].values[i])) return HUGE_VAL;
        if (!old || !old->complete() || old->of[0].elements != now.of[0].elements) {
          if (is_first) return now.of[0].values[i] == now.of[1].values[i] ? 0 : HUGE_VAL;
          return std::nullopt;
        }
        const bool follow = same_value(now.of[0].values[i], old->of[0].values[i]) &&
                            same_value(now.of[1].values[i], old->of[1].values[i]);
        return follow ? 0 : HUGE_VAL;
      });
    }
  }
  if (found.unjudged() > 0) found.missing("the step before");
  return found;
}

PairFindings compare_backward(const RunPair& pair, const RunPair* before,
                              const PairSettings& settings, double& largest) {
  PairFindings found(pair, PairPhase::backward);
  for (const RunPair::Lone& lone : pair.lone()) {
    const RunStep& step = pair.side(lone.side);
    if (!step.has_gradient(lone.index)) continue;
    found.add_scalar(0, "gradient", step.parameter(lone.index).name, HUGE_VAL,
                     lone.side == 0 ? "a gradient in A" : "none in A",
                     lone.side == 1 ? "a gradient in B" : "none in B", false,
                     "is recorded on one side only");
  }
  const bool judged = settings.gradients_within || same_parameters(pair, before);
  const double within = settings.gradients_within.value_or(0);
  double apart = 0;
  for (const RunPair::Common& p : pair.common()) {
    if (is_empty(pair, p)) continue;
    const std::optional<LeafSums> a = leaf_sums(pair.side(0), p[0]),
                                  b = leaf_sums(pair.side(1), p[1]);
    if (!a || !b) {
      if (!a) found.missing("leaf of A");
      if (!b) found.missing("leaf of B");
      continue;
    }
    const std::vector<std::int64_t> elements = elements_of(pair.parameter(p).leaf);
    PairTensor tensor{p, "sum of leaf", {}, {}, {a->dtype, b->dtype}};
    tensor.what = "differs between A and B";
    std::vector<bool> same_terms;
    std::array<std::vector<Real>, 2> magnitudes;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::vector<double> of_a = normalised_terms(*a, i), of_b = normalised_terms(*b, i);
      const Sum sum_a = sum_of(of_a), sum_b = sum_of(of_b);
      same_terms.push_back(of_a == of_b);
      tensor.values[0].push_back(static_cast<double>(sum_a.value));
      // The same terms have one sum.
      tensor.values[1].push_back(same_terms.back() ? tensor.values[0].back()
                                                   : static_cast<double>(sum_b.value));
      magnitudes[0].push_back(sum_a.magnitudes);
      magnitudes[1].push_back(sum_b.magnitudes);
    }
    for (std::size_t s = 0; s < 2; ++s) tensor.owners[s].assign(elements.size(), 0);
    tensor.dtypes = {DType::fp32, DType::fp32};
    const double most = largest_of_values(tensor);
    const auto n = static_cast<int>(std::max(a->leaves.size(), b->leaves.size()));
    const Real unit = std::max(unit_of(a->dtype), unit_of(b->dtype));
    const bool overflowed =
        !pair.side(0).ranks.front().applied && !pair.side(1).ranks.front().applied;
    found.add(tensor, [&](std::size_t i) -> std::optional<double> {
      const double x = tensor.values[0][i], y = tensor.values[1][i];
      if (overflowed && (!std::isfinite(x) || !std::isfinite(y)))
        return std::isfinite(x) == std::isfinite(y) ? 0 : HUGE_VAL;
      if (std::isnan(x) || std::isnan(y)) return HUGE_VAL;
      if (x == y) return 0;
      const double difference = std::fabs(x - y);
      if (!judged) {
        if (most > 0) apart = std::max(apart, difference / most);
        return std::nullopt;
      }
      const Real order = roundings(n + 1, unit) * std::max(magnitudes[0][i], magnitudes[1][i]);
      if (std::isfinite(difference) && most > 0) apart = std::max(apart, difference / most);
      return static_cast<double>(difference / (order + static_cast<Real>(within) * most));
    });
  }
  constexpr double of_kernels = 1e-3;  // other data or another loss give more
  if (apart > 0)
    found.hint(fmt::format(
        "the largest difference is {:.2g} times the largest element of its tensor{}", apart,
        apart < of_kernels && !settings.gradients_within
            ? "; of other kernels? --gradients-within allows it"
            : ""));
  if (found.unjudged() > 0) {
    found.note(
        "the parameters differ in bits, so gradients have no bound without "
        "--gradients-within");
    largest = std::max(largest, apart);
  }
  return found;
}

PairFindings compare_reduce(const RunPair& pair, const PairSettings& settings) {
  PairFindings found(pair, PairPhase::reduce);
  const bool skipped = !pair.side(0).ranks.front().applied && !pair.side(1).ranks.front().applied;
  for (const RunPair::Common& p : pair.common()) {
    if (is_empty(pair, p)) continue;
    const BothTensors reduced = both(pair, p, "reduced");
    if (!reduced.of[0].complete && !reduced.of[1].complete && !pair.side(0).has_gradient(p[0]) &&
        !pair.side(1).has_gradient(p[1]))
      continue;
    if (!reduced.complete()) {
      add_missing(found, reduced, "reduced");
      continue;
    }
    const PairTensor tensor = reduced.tensor(pair, p, "reduced", true);
    const double most = largest_of_values(tensor);
    std::array<std::optional<ReducedWay>, 2> ways;
    for (std::size_t s = 0; s < 2; ++s) {
      const RunStep& step = pair.side(s);
      if (step.ranks.front().has("leaf.0", step.parameter(p[s])))
        ways[s] = reduced_way(step, p[s], reduced.of[s]);
    }
    found.add(tensor, [&](std::size_t i) -> std::optional<double> {
      const std::array<double, 2> values = {tensor.values[0][i], tensor.values[1][i]};
      if (skipped && !std::isfinite(values[0]) && !std::isfinite(values[1])) return 0;
      if (!ways[0] || !ways[1]) {
        if (std::isnan(values[0]) || std::isnan(values[1])) return HUGE_VAL;
        if (values[0] == values[1]) return 0;
        if (!settings.gradients_within) return std::nullopt;
        return std::fabs(values[0] - values[1]) / (*settings.gradients_within * most);
      }
      std::array<ElementBound, 2> bounds;
      for (std::size_t s = 0; s < 2; ++s)
        bounds[s] = scaled_by(ways[s]->bounds[i], pair.side(s).ranks.front().loss_scale);
      return pair_ratio(values, bounds);
    });
    if (!ways[0] || !ways[1]) {
      found.missing("leaf of both sides");
    } else if (ways[0]->name == ways[1]->name) {
      if (!ways[0]->name.empty()) found.note(ways[0]->name + " in A and B");
    } else {
      for (std::size_t s = 0; s < 2; ++s) {
        if (!ways[s]->name.empty())
          found.note(fmt::format("{} in {}", ways[s]->name, side_names[s]));
      }
    }
    compare_replicas(pair, p, "reduced", reduced, found);
  }
  return found;
}

PairFindings compare_overflow(const RunPair& pair) {
  PairFindings found(pair, PairPhase::overflow);
  const bool first = pair.side(0).ranks.front().applied;
  const auto text = [](bool applied) { return std::string(applied ? "applied" : "skipped"); };
  visit_ranks(pair, [&](std::size_t s, std::size_t r, const RankFile& rank) {
    const auto texts = texts_of(s, r, text(first), text(rank.applied));
    found.add_scalar(r, "applied", "", rank.applied == first ? 0 : HUGE_VAL, texts[0], texts[1],
                     rank.applied == first);
  });
  return found;
}

PairFindings compare_norm(const RunPair& pair) {
  PairFindings found(pair, PairPhase::norm);
  const auto skipped = [&](std::size_t s) { return !pair.side(s).ranks.front().applied; };
  if (skipped(0) || skipped(1)) {
    found.note("a skipped step");
    return found;
  }
  const std::optional<double>& first = pair.side(0).ranks.front().norm;
  if (!first || !pair.side(1).ranks.front().norm) {
    found.missing("norm of both sides");
    return found;
  }
  std::vector<RunNorm> norms;
  norms.reserve(2);
  std::array<ElementBound, 2> bounds;
  for (std::size_t s = 0; s < 2; ++s) {
    const RunNorm& of =
        norms.emplace_back(pair.side(s), "reduced", pair.side(s).ranks.front().loss_scale);
    bounds[s] = of.missing().empty() ? of.bound() : no_bound;
    if (!of.missing().empty()) found.missing(fmt::format("{} of {}", of.missing(), side_names[s]));
    // A norm of gradients in 16 bits may be rounded to them.
    else if (of.format() != DType::fp32)
      bounds[s].allowed += roundings(3, unit_of(of.format())) * std::fabs(bounds[s].exact);
  }
  // As in judge_norm, a known mistake decides in a wide bound; one that both have is no difference.
  const auto mistake = [&](std::size_t s, std::size_t r, double norm) {
    const bool wide = norms[s].missing().empty() && norms[s].is_wide();
    return wide ? wrong_norm_text(norms[s], r, norm, 1e-3) : std::string();
  };
  const std::string of_first = mistake(0, 0, *first);
  visit_ranks(pair, [&](std::size_t s, std::size_t r, const RankFile& rank) {
    if (!rank.norm) return;
    const std::string of_other = mistake(s, r, *rank.norm);
    const bool one_wrong = of_first.empty() != of_other.empty();
    const std::optional<double> ratio =
        one_wrong ? HUGE_VAL : pair_ratio({*first, *rank.norm}, {bounds[0], bounds[s]});
    if (!ratio) {
      found.unjudged(1);
      found.note("a norm without a bound");
      return;
    }
    const auto texts = texts_of(s, r, shown_number(*first), shown_number(*rank.norm));
    const bool is_first = !found.has_first();
    found.add_scalar(r, "norm", "", *ratio, texts[0], texts[1], *first == *rank.norm);
    if (is_first && one_wrong) found.hint(of_first + of_other);
  });
  return found;
}

PairFindings compare_clip(const RunPair& pair) {
  PairFindings found(pair, PairPhase::clip);
  if (!pair.side(0).ranks.front().applied || !pair.side(1).ranks.front().applied) {
    found.note("a skipped step");
    return found;
  }
  // The coefficient of every rank, from the norm that it reports, or from the gradients.
  const auto coefficients = [&](std::size_t s, DType format) {
    std::vector<ElementBound> all;
    const RunStep& step = pair.side(s);
    const RunNorm norms(step, "reduced", step.ranks.front().loss_scale);
    const ElementBound norm = norms.missing().empty() ? norms.bound() : no_bound;
    for (const RankFile& rank : step.ranks) {
      const ElementBound of = rank.norm ? ElementBound{*rank.norm, 0, true} : norm;
      all.push_back(!rank.max_norm || of.judged ? coefficient_of(rank, of, format) : no_bound);
    }
    return all;
  };
  const auto compare = [&](DType format) {
    PairFindings into(pair, PairPhase::clip);
    const std::array<std::vector<ElementBound>, 2> c = {coefficients(0, format),
                                                        coefficients(1, format)};
    for (const RunPair::Common& p : pair.common()) {
      if (is_empty(pair, p)) continue;
      const BothTensors grad = both(pair, p, "before.grad");
      if (!grad.of[0].complete && !grad.of[1].complete) continue;
      if (!grad.complete()) {
        add_missing(into, grad, "before.grad");
        continue;
      }
      const BothTensors reduced = both(pair, p, "reduced");
      if (!grad.same()) add_missing(into, reduced, "reduced");
      const PairTensor tensor = grad.tensor(pair, p, "before.grad");
      into.add(tensor, [&](std::size_t i) -> std::optional<double> {
        if (std::isnan(tensor.values[0][i]) || std::isnan(tensor.values[1][i])) return HUGE_VAL;
        if (!reduced.complete()) return std::nullopt;
        std::array<ElementBound, 2> bounds;
        for (std::size_t s = 0; s < 2; ++s) {
          const std::size_t owner = grad.of[s].owner[i];
          if (!c[s][owner].judged) return std::nullopt;
          bounds[s] =
              stored_in(tensor.dtypes[s], clipped_bound(pair.side(s).ranks[owner], c[s][owner],
                                                        reduced.of[s].values[i], format));
        }
        return pair_ratio({tensor.values[0][i], tensor.values[1][i]}, bounds);
      });
      compare_replicas(pair, p, "before.grad", grad, into);
    }
    return into;
  };
  found = compare(DType::fp32);
  for (const DType narrow : {DType::bf16, DType::fp16}) {
    if (found.differing() == 0) break;
    const auto has = [&](std::size_t s) {
      const RunNorm norms(pair.side(s), "reduced", pair.side(s).ranks.front().loss_scale);
      return norms.missing().empty() && norms.format() == narrow;
    };
    if (!has(0) && !has(1)) continue;
    PairFindings other = compare(narrow);
    other.note("clipped in " + std::string(name(narrow)));
    if (other.differing() == 0) found = std::move(other);
  }
  return found;
}

namespace {

/// The update of one parameter on one side, assembled.
struct SideUpdate {
  RecordedStep step;
  DType master = DType::fp32, state = DType::fp32;
  std::map<std::string, AssembledTensor> after;
  std::string missing;

  const StepTensor& tensor() const { return step.tensors.front(); }
};

SideUpdate side_update(const RunStep& run, std::size_t p) {
  SideUpdate side;
  const RankFile& first = run.ranks.front();
  const std::vector<std::size_t> owners = run.owners(p);
  const RunParameter& parameter = run.parameter(p, owners.empty() ? 0 : owners.front());
  side.step.hyper = first.group_of(parameter).hyper;
  side.step.hyper.t = std::max<std::int64_t>(parameter.t, 1);
  StepTensor& tensor = side.step.tensors.emplace_back();
  AssembledTensor grad = assemble(run, p, "before.grad");
  if (!grad.complete) side.missing = "before.grad";
  tensor.grad = std::move(grad.values);
  for (const std::string& buffer : run_buffers(first.group_of(parameter))) {
    AssembledTensor before = assemble(run, p, "before." + buffer);
    AssembledTensor after = assemble(run, p, "after." + buffer);
    if (!after.complete) {
      if (side.missing.empty()) side.missing = "after." + buffer;
      continue;
    }
    (buffer == "master" ? side.master : side.state) = after.dtype;
    if (before.complete) {
      step_buffer(tensor.before, buffer) = std::move(before.values);
    } else if (buffer == "momentum_buffer") {
      side.step.is_first = true;
    } else if (buffer == "master") {
      side.missing = "before.master";
    } else {
      step_buffer(tensor.before, buffer).assign(tensor.grad.size(), 0.0F);
    }
    step_buffer(tensor.after, buffer) = after.values;
    side.after[buffer] = std::move(after);
  }
  return side;
}

/// Bounds of one element, by the names of buffers.
class SideBounds {
 public:
  SideBounds(const SideUpdate& side, bool rounded_betas)
      : side_(&side), setup_(setup_of(side.step, rounded_betas)), bounds_(setup_.hyper, setup_.t) {
    bounds_.set_betas(setup_.beta1, setup_.beta2);
  }

  ElementBound of(const std::string& buffer, std::size_t i) const {
    const StepTensor& t = side_->tensor();
    const auto at = [&](const std::vector<float>& values) {
      return values.empty() ? 0 : values[i];
    };
    const UpdateBound bound =
        bounds_(t.grad[i], {at(t.before.master), at(t.before.exp_avg), at(t.before.exp_avg_sq),
                            at(t.before.max_exp_avg_sq), at(t.before.momentum_buffer)});
    const ElementBound& one = buffer == "master"           ? bound.master
                              : buffer == "exp_avg"        ? bound.exp_avg
                              : buffer == "exp_avg_sq"     ? bound.exp_avg_sq
                              : buffer == "max_exp_avg_sq" ? bound.max_exp_avg_sq
                                                           : bound.momentum_buffer;
    return stored_in(buffer == "master" ? side_->master : side_->state, one);
  }

 private:
  const SideUpdate* side_;
  UpdateSetup setup_;
  UpdateBounds bounds_;
};

/// Nothing for settings outside the conditions of the bound.
std::optional<SideBounds> side_bounds(const SideUpdate& side, bool rounded_betas) try {
  return SideBounds(side, rounded_betas);
} catch (const Error&) {
  return std::nullopt;
}

/// Parameters and state of a parameter that is not updated in this step.
void compare_unchanged(const RunPair& pair, const RunPair::Common& p, PairFindings& found) {
  const RankFile& first = pair.side(0).ranks.front();
  for (const std::string& buffer : run_buffers(first.group_of(first.parameters[p[0]]))) {
    const BothTensors before = both(pair, p, "before." + buffer);
    const BothTensors after = both(pair, p, "after." + buffer);
    if (!before.complete() || !after.complete()) continue;
    const PairTensor tensor = after.tensor(pair, p, "after." + buffer);
    found.add(tensor, [&](std::size_t i) {
      std::array<ElementBound, 2> bounds;
      for (std::size_t s = 0; s < 2; ++s) bounds[s] = {before.of[s].values[i], 0, true};
      return pair_ratio({tensor.values[0][i], tensor.values[1][i]}, bounds);
    });
  }
}

void compare_updated(const RunPair& pair, const RunPair::Common& p, bool rounded_betas,
                     PairFindings& found) {
  const RankFile& first = pair.side(0).ranks.front();
  const RunGroup& group = first.group_of(first.parameters[p[0]]);
  const std::array<SideUpdate, 2> sides = {side_update(pair.side(0), p[0]),
                                           side_update(pair.side(1), p[1])};
  std::array<std::optional<SideBounds>, 2> bounds;
  std::string why;
  for (std::size_t s = 0; s < 2; ++s) {
    const SideUpdate& side = sides[s];
    const bool keeps_state = run_buffers(group).size() > 1;
    if (!side.missing.empty())
      why = fmt::format("{} of {}", side.missing, side_names[s]);
    else if (!group.is_other && group.hyper.rule != UpdateRule::lamb &&
             group.hyper.rule != UpdateRule::muon &&
             (side.master == DType::fp32 || (keeps_state && side.state == DType::fp32)))
      bounds[s] = side_bounds(side, rounded_betas);
  }
  if (!why.empty()) found.missing(why);
  for (const auto& entry : sides[0].after) {
    const std::string& buffer = entry.first;
    const auto b = sides[1].after.find(buffer);
    if (b == sides[1].after.end()) continue;
    const BothTensors after{{entry.second, b->second}};
    const PairTensor tensor = after.tensor(pair, p, "after." + buffer);
    found.add(tensor, [&](std::size_t i) -> std::optional<double> {
      if (std::isnan(tensor.values[0][i]) || std::isnan(tensor.values[1][i])) return HUGE_VAL;
      if (!bounds[0] || !bounds[1]) {
        found.note("no bound for this rule, format or setting");
        return std::nullopt;
      }
      return pair_ratio({tensor.values[0][i], tensor.values[1][i]},
                        {bounds[0]->of(buffer, i), bounds[1]->of(buffer, i)});
    });
  }
}

}  // namespace

PairFindings compare_update(const RunPair& pair) {
  PairFindings found(pair, PairPhase::update);
  const bool applied = pair.side(0).ranks.front().applied && pair.side(1).ranks.front().applied;
  for (const RunPair::Common& p : pair.common()) {
    if (is_empty(pair, p)) continue;
    std::optional<std::int64_t> t;
    for (std::size_t s = 0; s < 2; ++s) {
      for (const std::size_t r : pair.side(s).owners(p[s])) {
        const std::int64_t other = pair.side(s).parameter(p[s], r).t;
        if (!t) t = other;
        if (*t == other) continue;  // alone it is no update
        const auto texts = texts_of(s, r, std::to_string(*t), std::to_string(other));
        found.add_scalar(r, "t", pair.parameter(p).name, HUGE_VAL, texts[0], texts[1], false,
                         "counts other updates");
      }
    }
    if (!applied || (!pair.side(0).any_has("before.grad", p[0]) &&
                     !pair.side(1).any_has("before.grad", p[1]))) {
      compare_unchanged(pair, p, found);
      continue;
    }
    // Betas as the programs have them, whichever gives fewer differences.
    PairFindings given = found;
    compare_updated(pair, p, false, given);
    if (given.differing() > found.differing()) {
      PairFindings rounded = found;
      compare_updated(pair, p, true, rounded);
      if (rounded.differing() < given.differing()) given = std::move(rounded);
    }
    found = std::move(given);
  }
  if (!applied) found.note("a skipped step");
  return found;
}

PairFindings compare_cast(const RunPair& pair) {
  PairFindings found(pair, PairPhase::cast);
  for (const RunPair::Common& p : pair.common()) {
    if (is_empty(pair, p)) continue;
    const BothTensors after = both(pair, p, "after.master");
    if (after.complete()) compare_replicas(pair, p, "after.master", after, found);
    bool all = true;
    visit_ranks(pair, [&](std::size_t s, std::size_t, const RankFile& rank) {
      all = all && rank.has("model", rank.parameters[p[s]]);
    });
    if (!all) {  // ranks of one side alone are no comparison of both
      found.missing("model of all ranks");
      continue;
    }
    const RankFile& first = pair.side(0).ranks.front();
    const std::optional<RunValues> model = first.read("model", first.parameters[p[0]]);
    visit_ranks(pair, [&](std::size_t s, std::size_t r, const RankFile& rank) {
      const auto other = rank.read("model", rank.parameters[p[s]]);
      PairTensor tensor{p, "model", {}, {}, {model->dtype, other->dtype}};
      tensor.owners[0].assign(model->values.size(), 0);
      tensor.owners[1].assign(model->values.size(), r);
      tensor.values[0].assign(model->values.begin(), model->values.end());
      tensor.values[1].assign(other->values.begin(), other->values.end());
      if (s == 0) tensor.what = "differs between rank 0 and another rank of A";
      found.add(tensor, [&](std::size_t i) -> std::optional<double> {
        if (std::isnan(model->values[i]) || std::isnan(other->values[i])) return HUGE_VAL;
        if (!after.complete()) return std::nullopt;
        const std::array<float, 2> want = {round_to(model->dtype, after.of[0].values[i]),
                                           round_to(other->dtype, after.of[s].values[i])};
        const bool right =
            same_value(model->values[i], want[0]) && same_value(other->values[i], want[1]);
        return right ? 0 : HUGE_VAL;
      });
    });
  }
  return found;
}

}  // namespace zeroproof::verification
