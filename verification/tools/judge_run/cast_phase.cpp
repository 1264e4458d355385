// Phases cast and state: the parameters that the model reads, and what passes from step to step.

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/same_value.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/judge_run/run_assembled.hpp"
#include "verification/tools/judge_run/run_element.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {
namespace {

float cut_to(DType dtype, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (dtype == DType::bf16) return std::bit_cast<float>(bits & 0xFFFF0000U);
  return dtype == DType::fp16 ? std::bit_cast<float>(bits & 0xFFFFE000U) : value;
}

/// Why a model's parameters are not the rounded masters.
std::string wrong_cast(const RunStep& step, std::size_t p, const AssembledTensor& after,
                       const RunValues& model) {
  const auto wrong_are = [&](const auto& as_if) {
    for (std::size_t i = 0; i < model.values.size(); ++i) {
      if (same_value(model.values[i], round_to(model.dtype, after.values[i]))) continue;
      if (!same_value(model.values[i], as_if(i))) return false;
    }
    return true;
  };
  if (model.dtype != DType::fp32 &&
      wrong_are([&](std::size_t i) { return cut_to(model.dtype, after.values[i]); }))
    return "as if the values were truncated instead of rounded to nearest even";
  const AssembledTensor before = assemble(step, p, "before.master");
  if (before.complete &&
      wrong_are([&](std::size_t i) { return round_to(model.dtype, before.values[i]); })) {
    std::vector<bool> stale(step.ranks.size(), false);
    for (std::size_t i = 0; i < model.values.size(); ++i) {
      if (!same_value(model.values[i], round_to(model.dtype, after.values[i])))
        stale[after.owner[i]] = true;
    }
    std::string from;
    if (!step.parameter(p).replicated) {
      for (std::size_t r = 0; r < stale.size(); ++r) {
        if (stale[r]) from += (from.empty() ? "" : ", ") + std::to_string(r);
      }
    }
    return "as if these were the parameters from before the step: stale" +
           (from.empty() ? "" : ", not gathered from rank " + from);
  }
  if (wrong_are([&](std::size_t) { return 0.0F; })) return "they hold 0";
  if (model.dtype == DType::fp32 &&
      wrong_are([&](std::size_t i) { return round_to(DType::bf16, after.values[i]); }))
    return "as if they had been rounded to bf16";
  return "";
}

}  // namespace

RunFindings judge_cast(const RunStep& step) {
  RunFindings found(step, RunPhase::cast);
  bool any = false;
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    const AssembledTensor after = assemble(step, p, "after.master");
    bool all = true;
    for (std::size_t r = 0; r < step.ranks.size(); ++r) {
      const RunParameter& parameter = step.parameter(p, r);
      const auto model = step.ranks[r].read("model", parameter);
      any = any || model;
      all = all && model;
      if (model && !after.complete) found.missing("after.master");
      if (!model || !after.complete) continue;
      const RunPlace place{r, p, "model", "is not after.master in its format", true, model->dtype};
      for (std::size_t i = 0; i < model->values.size(); ++i) {
        const float want = round_to(model->dtype, after.values[i]);
        found.add(place, static_cast<std::int64_t>(i),
                  same_value(model->values[i], want) ? 0 : HUGE_VAL, model->values[i], want);
      }
      if (found.first_in(place)) found.hint(wrong_cast(step, p, after, *model));
    }
    if (!all && any) found.missing("model of all ranks");
    if (!step.parameter(p).replicated || !after.complete) continue;
    for (std::size_t r = 1; r < step.ranks.size(); ++r) {
      const RunParameter& parameter = step.parameter(p, r);
      const auto mine = step.ranks[r].read("after.master", parameter);
      if (!mine) continue;
      const RunPlace place{r,     p,          "after.master", "has other bits than on rank 0",
                           false, mine->dtype};
      for (std::size_t i = 0; i < mine->values.size(); ++i)
        found.add(place, static_cast<std::int64_t>(i),
                  same_value(mine->values[i], after.values[i]) ? 0 : HUGE_VAL, mine->values[i],
                  after.values[i]);
      if (found.first_in(place))
        found.hint("as if the replicas had been updated with other gradients or states");
    }
  }
  if (!any) found.missing("model");
  return found;
}

RunFindings judge_state(const RunStep& step, const RunStep* before) {
  RunFindings found(step, RunPhase::state);
  if (before == nullptr || before->number() + 1 != step.number()) {
    found.missing("the step before");
    return found;
  }
  for (std::size_t p = 0; p < step.num_parameters(); ++p) {
    if (p >= before->num_parameters() || before->parameter(p).name != step.parameter(p).name ||
        before->parameter(p).leaf != step.parameter(p).leaf) {
      found.missing("the same parameters in the step before");
      continue;
    }
    for (std::size_t r = 0; r < step.ranks.size(); ++r) {
      const RunParameter& parameter = step.parameter(p, r);
      if (parameter.owned.empty()) continue;
      const std::vector<std::int64_t> owned = elements_of(parameter.owned);
      for (const std::string& buffer : run_buffers(step.ranks[r].group_of(parameter))) {
        const auto now = step.ranks[r].read("before." + buffer, parameter);
        if (!now && buffer != "master" && !step.ranks[r].has("after." + buffer, parameter))
          continue;
        const std::size_t replica = r < before->ranks.size() ? r : 0;
        const AssembledTensor then = assemble(*before, p, "after." + buffer, replica);
        if (!then.complete) continue;
        if (!now) {
          if (buffer != "master") {
            found.add_scalar(r, "before." + buffer + " of " + parameter.name,
                             "is missing, and the step before had it", HUGE_VAL, "none", "a state");
            found.hint("as if it had been lost between the steps, as on resume");
          }
          continue;
        }
        const RunPlace place{r,
                             p,
                             "before." + buffer,
                             fmt::format("is not the value after step {}", before->number()),
                             false,
                             now->dtype};
        std::size_t zeros = 0, old = 0, wrong = 0;
        const AssembledTensor older = assemble(*before, p, "before." + buffer, replica);
        for (std::size_t i = 0; i < owned.size(); ++i) {
          const auto at = static_cast<std::size_t>(
              std::ranges::lower_bound(then.elements, owned[i]) - then.elements.begin());
          const float got = now->values[i], want = then.values[at];
          if (!found.add(place, static_cast<std::int64_t>(i), same_value(got, want) ? 0 : HUGE_VAL,
                         got, want))
            continue;
          ++wrong;
          zeros += got == 0 ? 1 : 0;
          old += older.complete && same_value(got, older.values[at]) ? 1 : 0;
        }
        if (!found.first_in(place)) continue;
        const std::string of = buffer == "master"            ? "parameters"
                               : buffer == "momentum_buffer" ? "momentum"
                                                             : "moments";
        const std::string cause = fmt::format("{} of before are not those after the last step", of);
        if (zeros == wrong)
          found.hint(cause + ": they are 0, lost on resume");
        else if (old == wrong)
          found.hint(cause + ", but those before it: an update was lost");
        else
          found.hint(cause + ": changed between the steps, or another checkpoint");
      }
    }
  }
  return found;
}

}  // namespace zeroproof::verification
