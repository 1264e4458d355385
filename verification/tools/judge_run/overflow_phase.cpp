// Phase overflow: all ranks skip a step, or none, and a skipped step changes nothing.

#include <algorithm>
#include <cmath>

#include "common/base/same_value.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {
namespace {

/// The first gradient that is not finite.
struct NotFinite {
  std::size_t rank = 0;
  std::string parameter;
};

std::string applied_text(bool applied) { return applied ? "applied" : "skipped"; }

/// Parameters and state of a skipped step, before and after.
void judge_unchanged(const RunStep& step, std::size_t r, RunFindings& found) {
  const RankFile& rank = step.ranks[r];
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    const RunParameter& parameter = rank.parameters[p];
    for (const std::string& buffer : run_buffers(rank.group_of(parameter))) {
      const auto was = rank.read("before." + buffer, parameter);
      const auto is = rank.read("after." + buffer, parameter);
      if (!was || !is) continue;
      const RunPlace place{r, p, "after." + buffer, "changed in a skipped step", false, is->dtype};
      for (std::size_t i = 0; i < is->values.size(); ++i)
        found.add(place, static_cast<std::int64_t>(i),
                  same_value(was->values[i], is->values[i]) ? 0 : HUGE_VAL, is->values[i],
                  was->values[i]);
      if (found.first_in(place))
        found.hint("as if this rank had updated although the step was skipped");
    }
  }
}

}  // namespace

RunFindings judge_overflow(const RunStep& step) {
  RunFindings found(step, RunPhase::overflow);
  std::optional<NotFinite> first;
  bool complete = true, any = false;
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    if (!step.has_gradient(p)) continue;
    for (const std::size_t r : step.owners(p)) {
      const RunParameter& parameter = step.parameter(p, r);
      bool finite = true;
      if (const auto reduced = step.ranks[r].read("reduced", parameter)) {
        any = true;
        finite = std::ranges::all_of(reduced->values, [](float x) { return std::isfinite(x); });
      } else {
        complete = false;
      }
      if (parameter.sum_squares) finite = finite && std::isfinite(*parameter.sum_squares);
      if (parameter.sampled() && !parameter.sum_squares) complete = false;
      if (!finite && !first) first = NotFinite{r, parameter.name};
    }
  }
  if (!any) found.missing("reduced");
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const RankFile& rank = step.ranks[r];
    // What the gradients decide; unrecorded ones may have overflowed.
    const bool decided = first || (any && complete);
    const bool wanted = first ? false : decided ? true : step.ranks.front().applied;
    if (decided || step.world() > 1) {
      found.add_scalar(r, "applied",
                       first     ? "is not what the gradients of all ranks require"
                       : decided ? "was skipped although every gradient is finite"
                                 : "is not the decision of rank 0",
                       rank.applied == wanted ? 0 : HUGE_VAL, applied_text(rank.applied),
                       applied_text(wanted));
      if (rank.applied != wanted) {
        std::size_t same = 0;
        for (const RankFile& other : step.ranks) same += other.applied == rank.applied ? 1 : 0;
        const std::string where =
            first ? fmt::format("{} of rank {} is not finite", first->parameter, first->rank)
                  : "every recorded gradient is finite";
        found.hint(where + (same < step.ranks.size()
                                ? fmt::format("; as if the ranks did not agree: {} of {} {}", same,
                                              step.world(), applied_text(rank.applied))
                                : "; all ranks " + applied_text(rank.applied)));
      }
    }
    if (rank.loss_scale != step.ranks.front().loss_scale) {
      found.add_scalar(r, "loss_scale", "is not that of rank 0", HUGE_VAL,
                       fmt::format("{:g}", rank.loss_scale),
                       fmt::format("{:g}", step.ranks.front().loss_scale));
      found.hint("as if an earlier step had been skipped on some ranks only");
    }
    if (!rank.applied) judge_unchanged(step, r, found);
  }
  return found;
}

}  // namespace zeroproof::verification
