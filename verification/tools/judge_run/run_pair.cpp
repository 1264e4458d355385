#include "verification/tools/judge_run/run_pair.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "common/base/printable.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* one_training = "both recordings are of one training, under two settings";

void require_same(bool same, const RankFile& file, const RunParameter& parameter,
                  const std::string& what, const std::string& remedy) {
  if (same) return;
  refuse_recording(file.path, what + " of " + shown_name(parameter.name) + " is another than in A",
                   one_training, remedy);
}

}  // namespace

RunPair::RunPair(const RunStep& a, const RunStep& b) : sides_{&a, &b} {
  std::map<std::string, std::size_t> in_b;
  for (std::size_t p = 0; p < b.num_parameters(); ++p) in_b[b.parameter(p).name] = p;
  std::vector<bool> found(b.num_parameters(), false);
  const RankFile &of_a = a.ranks.front(), &of_b = b.ranks.front();
  for (std::size_t p = 0; p < a.num_parameters(); ++p) {
    const RunParameter& mine = a.parameter(p);
    const auto other = in_b.find(mine.name);
    if (other == in_b.end()) {
      lone_.push_back({0, p});
      continue;
    }
    const RunParameter& theirs = b.parameter(other->second);
    require_same(mine.shape == theirs.shape, of_b, theirs, "the shape",
                 "record the same model twice");
    require_same(mine.leaf == theirs.leaf, of_b, theirs, "the choice of recorded elements",
                 "record with the same limit and seed");
    const RunGroup &group = of_a.group_of(mine), &another = of_b.group_of(theirs);
    require_same(group.is_other == another.is_other && group.hyper.rule == another.hyper.rule, of_b,
                 theirs, "the rule", "train with one optimizer");
    found[other->second] = true;
    common_.push_back({p, other->second});
  }
  for (std::size_t p = 0; p < found.size(); ++p) {
    if (!found[p]) lone_.push_back({1, p});
  }
  if (common_.empty())
    refuse_recording(of_b.path, "it has no parameter of A", one_training,
                     "record the same model twice, with the same names");
}

std::optional<double> pair_ratio(const std::array<double, 2>& values,
                                 const std::array<ElementBound, 2>& bounds) {
  using bounds::Real;
  if (std::isnan(values[0]) || std::isnan(values[1])) return HUGE_VAL;
  if (values[0] == values[1]) return 0;
  double alone = 0;
  bool by_bound = true;
  for (std::size_t s = 0; s < 2; ++s) {
    const ElementBound& bound = bounds[s];
    if (!bound.judged && bound.classes.all()) return std::nullopt;
    alone = std::max(alone, bound.ratio(values[s]));
    by_bound = by_bound && bound.judged && std::isfinite(bound.exact) && std::isfinite(values[s]);
  }
  if (!by_bound) return alone;
  const Real apart = std::fabs((static_cast<Real>(values[0]) - bounds[0].exact) -
                               (static_cast<Real>(values[1]) - bounds[1].exact));
  if (apart == 0) return 0;
  return static_cast<double>(apart / (bounds[0].allowed + bounds[1].allowed));
}

}  // namespace zeroproof::verification
