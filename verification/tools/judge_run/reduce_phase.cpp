// Phase reduce: the gradient of a step is the sum or the mean over ranks and micro-batches.

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/base/same_value.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/judge_run/reduced_way.hpp"
#include "verification/tools/judge_run/run_element.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {
namespace {

/// A way to add gradients.
struct Accumulation {
  DType micro = DType::fp32;  ///< micro-batches, one after another
  DType all = DType::fp32;    ///< everything, in any order
  std::string name;
  DType each = DType::fp32;  ///< the ranks' gradients of one micro-batch; micro-batches in fp32
};

/// The gradients of one parameter, of all ranks and micro-batches.
struct Leaves {
  std::vector<std::vector<RunValues>> of_rank;
  std::vector<std::int64_t> elements;  ///< of the parameter, ascending

  std::size_t place_of(std::int64_t element) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(elements, element) - elements.begin());
  }
};

Leaves read_leaves(const RunStep& step, std::size_t p) {
  Leaves leaves;
  leaves.elements = elements_of(step.parameter(p).leaf);
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    std::vector<RunValues>& mine = leaves.of_rank.emplace_back();
    for (std::int64_t m = 0; m < step.ranks[r].micro_batches; ++m) {
      if (auto values = step.ranks[r].read("leaf." + std::to_string(m), step.parameter(p, r)))
        mine.push_back(std::move(*values));
    }
  }
  return leaves;
}

/// Terms of the sum of one element.
void terms_of(const Leaves& leaves, std::size_t at, const Accumulation& how,
              std::vector<float>& terms) {
  terms.clear();
  for (const std::vector<RunValues>& rank : leaves.of_rank) {
    if (how.micro == DType::fp32) {
      for (const RunValues& leaf : rank) terms.push_back(leaf.values[at]);
      continue;
    }
    float sum = rank.empty() ? 0 : rank.front().values[at];
    for (std::size_t m = 1; m < rank.size(); ++m)
      sum = round_to(how.micro, sum + rank[m].values[at]);
    terms.push_back(sum);
  }
}

/// The reductions of single micro-batches in a format of 16 bits, added in fp32.
struct ReducedOneByOne {
  ElementBound bound{0, 0, true};
  /// Every such sum is a multiple of it; 0 if the gradients do not show it.
  bounds::Real grid = HUGE_VALL;
};

ReducedOneByOne one_by_one(const Leaves& leaves, std::size_t at, std::int64_t parts, DType format) {
  using bounds::Real;
  ReducedOneByOne sum;
  Real magnitudes = 0;
  std::vector<float> terms;
  std::size_t most = 0;  // ranks may have different numbers of micro-batches
  for (const std::vector<RunValues>& rank : leaves.of_rank) most = std::max(most, rank.size());
  for (std::size_t m = 0; m < most; ++m) {
    terms.clear();
    for (const std::vector<RunValues>& rank : leaves.of_rank) {
      if (m < rank.size()) terms.push_back(rank[m].values[at]);
    }
    const ElementBound one = stored_in(format, sum_or_mean_bound(terms, parts, unit_of(format)));
    if (!one.judged || !std::isfinite(one.exact)) return {one, 0};
    sum.bound.exact += one.exact;
    sum.bound.allowed += one.allowed;
    magnitudes += std::fabs(one.exact) + one.allowed;
    if (std::ranges::all_of(terms, [](float x) { return x == 0; })) continue;
    const Real least = std::fabs(one.exact) - one.allowed;
    // A number of the format has 1 / unit steps between powers of two.
    const Real step = least > 0 ? std::ldexp(unit_of(format) * 2, std::ilogb(least)) : 0;
    sum.grid = std::min(sum.grid, std::max(step, 2 * half_tiny_of(format)));
  }
  const auto adds = static_cast<int>(most) - 1;
  sum.bound.allowed += roundings(std::max(0, adds), bounds::u) * magnitudes;
  sum.bound.allowed *= bounds::slack;
  if (magnitudes >= sum.grid / bounds::u) sum.grid = 0;  // the additions round
  return sum;
}

double ratio_one_by_one(const ReducedOneByOne& sum, DType stored, float got) {
  const bool on_grid = !(sum.grid > 0) || std::fmod(static_cast<bounds::Real>(got), sum.grid) == 0;
  return on_grid || !std::isfinite(got) ? stored_in(stored, sum.bound).ratio(got) : HUGE_VAL;
}

/// A reduced gradient under one way of adding, and its error in units of the bound.
struct JudgedElement {
  ElementBound bound;
  double ratio = 0;
};

JudgedElement judged_element(const Leaves& leaves, std::size_t at, const Accumulation& how,
                             std::int64_t parts, DType stored, float got) {
  if (how.each != DType::fp32) {
    const ReducedOneByOne sum = one_by_one(leaves, at, parts, how.each);
    return {stored_in(stored, sum.bound), ratio_one_by_one(sum, stored, got)};
  }
  std::vector<float> terms;
  terms_of(leaves, at, how, terms);
  const ElementBound bound = stored_in(stored, sum_or_mean_bound(terms, parts, unit_of(how.all)));
  // The precision of another sum shows in every result.
  const bool shows = how.all == DType::fp32 || is_number_of(how.all, got);
  return {bound, shows ? bound.ratio(got) : HUGE_VAL};
}

std::vector<Accumulation> accumulations(const RunStep& step, bool only_fp32) {
  std::vector<Accumulation> ways = {{}};
  if (only_fp32) return ways;
  const bool several =
      std::ranges::any_of(step.ranks, [](const RankFile& rank) { return rank.micro_batches > 1; });
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const std::string format = dtype == DType::bf16 ? "bf16" : "fp16";
    if (several && step.world() > 1)
      ways.push_back({dtype, DType::fp32, "micro-batches accumulated in " + format});
    ways.push_back({DType::fp32, dtype, "accumulated in " + format});
    if (several)
      ways.push_back({DType::fp32, DType::fp32, "micro-batches reduced in " + format, dtype});
  }
  return ways;
}

/// A wrong sum: a factor of each gradient.
struct WrongSum {
  std::string text;
  std::function<double(std::size_t rank, std::size_t micro)> weight;
};

std::vector<WrongSum> wrong_sums(const RunStep& step, const Leaves& leaves, std::size_t mine) {
  const auto world = static_cast<double>(step.world());
  const RankFile& first = step.ranks.front();
  const double right = first.mean ? 1 / world : 1;
  const auto all = [](double factor) {
    return [factor](std::size_t, std::size_t) { return factor; };
  };
  const std::string ranks = fmt::format("the number of ranks ({})", step.world());
  std::vector<WrongSum> sums;
  if (step.world() > 1) {
    if (first.mean) {
      sums.push_back({"not divided by " + ranks, all(1)});
      sums.push_back({"divided twice by " + ranks, all(right / world)});
    } else {
      sums.push_back({"divided by " + ranks, all(1 / world)});
      sums.push_back({"multiplied by " + ranks, all(world)});
    }
    for (std::size_t left = 0; left < leaves.of_rank.size(); ++left) {
      const auto others = [left](double factor) {
        return [left, factor](std::size_t r, std::size_t) { return r == left ? 0 : factor; };
      };
      sums.push_back({fmt::format("the gradients of rank {} were left out", left), others(right)});
      if (first.mean && step.world() > 2)
        sums.push_back({fmt::format("the gradients of rank {} were left out, and the sum divided "
                                    "by the number of other ranks",
                                    left),
                        others(1 / (world - 1))});
    }
    for (std::size_t only = 0; only < leaves.of_rank.size(); ++only) {
      const auto alone = [only](double factor) {
        return [only, factor](std::size_t r, std::size_t) { return r == only ? factor : 0; };
      };
      sums.push_back(
          {fmt::format("only rank {} had gradients, not reduced over ranks", only), alone(1)});
      if (first.mean)
        sums.push_back(
            {fmt::format("only rank {} had gradients, divided by {}", only, ranks), alone(right)});
    }
  }
  const auto micro = static_cast<std::size_t>(first.micro_batches);
  if (micro > 1) {
    const std::string batches = fmt::format("the number of micro-batches ({})", micro);
    sums.push_back({"divided by " + batches, all(right / static_cast<double>(micro))});
    sums.push_back({"multiplied by " + batches, all(right * static_cast<double>(micro))});
    const std::size_t named = std::min<std::size_t>(micro, 16);
    for (std::size_t left = 0; left < named; ++left) {
      sums.push_back({fmt::format("micro-batch {} of every rank were left out", left),
                      [=](std::size_t, std::size_t m) { return m == left ? 0 : right; }});
      for (std::size_t of = 0; step.world() > 1 && of < leaves.of_rank.size(); ++of)
        sums.push_back(
            {fmt::format("micro-batch {} of rank {} were left out", left, of),
             [=](std::size_t r, std::size_t m) { return r == of && m == left ? 0 : right; }});
    }
    for (std::size_t own = 0; step.world() > 1 && own < named; ++own)
      sums.push_back({fmt::format("micro-batch {} were not reduced over the ranks", own),
                      [=](std::size_t r, std::size_t m) {
                        return m != own ? right : r == mine ? 1 : 0;
                      }});
    for (std::size_t only = 0; only < named; ++only)
      sums.push_back({fmt::format("only micro-batch {} of every rank were added", only),
                      [=](std::size_t, std::size_t m) { return m == only ? right : 0; }});
  }
  if (first.loss_scale != 1)
    sums.push_back({fmt::format("divided by the loss scale ({:g}) already", first.loss_scale),
                    all(right / first.loss_scale)});
  return sums;
}

/// True if the weighted sum explains every element.
bool explains(const WrongSum& wrong, const Leaves& leaves, const std::vector<std::int64_t>& owned,
              const RunValues& got, bounds::Real unit) {
  using bounds::Real;
  bool significant = false;
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const std::size_t at = leaves.place_of(owned[i]);
    Real sum = 0, magnitudes = 0;
    int terms = 3;
    for (std::size_t r = 0; r < leaves.of_rank.size(); ++r) {
      for (std::size_t m = 0; m < leaves.of_rank[r].size(); ++m, ++terms) {
        const Real x = static_cast<Real>(wrong.weight(r, m)) *
                       static_cast<Real>(leaves.of_rank[r][m].values[at]);
        sum += x;
        magnitudes += std::fabs(x);
      }
    }
    const Real allowed =
        (roundings(terms, unit) + unit_of(got.dtype)) * magnitudes + half_tiny_of(got.dtype);
    if (!(std::fabs(static_cast<Real>(got.values[i]) - sum) <= 2 * allowed)) return false;
    significant = significant || magnitudes != 0;
  }
  return significant;
}

std::string wrong_sum(const RunStep& step, const Leaves& leaves, std::size_t p, std::size_t mine,
                      const RunValues& got, const Accumulation& how) {
  const RunParameter& parameter = step.parameter(p, mine);
  const std::vector<std::int64_t> owned = elements_of(parameter.owned);
  const bounds::Real unit = std::max({unit_of(how.all), unit_of(how.micro), unit_of(how.each)});
  for (const WrongSum& wrong : wrong_sums(step, leaves, mine)) {
    if (explains(wrong, leaves, owned, got, unit)) return "as if " + wrong.text;
  }
  return "";
}

/// Ranks with a right tensor, if there are others.
std::string only_ranks(std::size_t wrong_rank, bool others_right, std::int64_t world) {
  if (world == 1 || !others_right) return "";
  return fmt::format("only rank {} differs", wrong_rank);
}

RunFindings reduce_with(const RunStep& step, const Accumulation& how) {
  RunFindings found(step, RunPhase::reduce);
  const RankFile& first = step.ranks.front();
  const std::int64_t parts = first.mean ? step.world() : 1;
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    if (!first.has("leaf.0", step.parameter(p))) {
      if (step.has_gradient(p) && !step.owners(p).empty()) found.missing("leaf");
      continue;
    }
    if (!step.all_have("reduced", p)) found.missing("reduced");
    const Leaves leaves = read_leaves(step, p);
    std::optional<RunValues> of_first;
    std::optional<std::size_t> wrong_rank;
    bool others_right = true;
    for (const std::size_t r : step.owners(p)) {
      const RunParameter& parameter = step.parameter(p, r);
      const std::optional<RunValues> reduced = step.ranks[r].read("reduced", parameter);
      if (!reduced) continue;
      RunPlace place{
          r,
          p,
          "reduced",
          first.mean ? "is not the mean over the ranks" : "is not the sum over the ranks",
          false,
          reduced->dtype};
      const std::vector<std::int64_t> owned = elements_of(parameter.owned);
      bool wrong = false;
      for (std::size_t i = 0; i < owned.size(); ++i) {
        const float got = reduced->values[i];
        const JudgedElement one =
            judged_element(leaves, leaves.place_of(owned[i]), how, parts, reduced->dtype, got);
        wrong = found.add(place, static_cast<std::int64_t>(i), one.ratio, got, one.bound.exact) ||
                wrong;
      }
      if (wrong && found.first_in(place)) {
        found.hint(wrong_sum(step, leaves, p, r, *reduced, how));
        wrong_rank = r;
      } else if (wrong) {
        others_right = false;
      }
      if (step.parameter(p).replicated && of_first) {
        place.buffer = "reduced of a replica";
        place.what = "has other bits than on the first rank";
        for (std::size_t i = 0; i < owned.size() && i < of_first->values.size(); ++i) {
          const bool same = same_value(of_first->values[i], reduced->values[i]);
          found.add(place, static_cast<std::int64_t>(i), same ? 0 : HUGE_VAL, reduced->values[i],
                    of_first->values[i]);
        }
      }
      if (!of_first) of_first = reduced;
    }
    if (wrong_rank) found.hint(only_ranks(*wrong_rank, others_right, step.world()));
  }
  if (!how.name.empty()) found.note(how.name);
  return found;
}

}  // namespace

ReducedWay reduced_way(const RunStep& step, std::size_t p, const AssembledTensor& reduced) {
  const Leaves leaves = read_leaves(step, p);
  const std::int64_t parts = step.ranks.front().mean ? step.world() : 1;
  std::optional<ReducedWay> in_fp32;
  for (const Accumulation& how : accumulations(step, false)) {
    ReducedWay way{how.name, {}};
    bool right = true;
    for (std::size_t i = 0; i < reduced.values.size(); ++i) {
      const JudgedElement one =
          judged_element(leaves, i, how, parts, reduced.dtype, reduced.values[i]);
      way.bounds.push_back(one.bound);
      right = right && one.ratio <= 1;
    }
    if (right) return way;
    if (!in_fp32) in_fp32 = std::move(way);  // the first way
  }
  return std::move(*in_fp32);
}

RunFindings judge_reduce(const RunStep& step, const RunJudgeSettings& settings) {
  std::optional<RunFindings> best;
  for (const Accumulation& how : accumulations(step, settings.only_fp32)) {
    RunFindings found = reduce_with(step, how);
    if (!best || found.differing() < best->differing()) best = std::move(found);
    if (best->differing() == 0) break;
  }
  return std::move(*best);
}

}  // namespace zeroproof::verification
