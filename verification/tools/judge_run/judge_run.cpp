#include "verification/tools/judge_run/judge_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/report/format.hpp"
#include "verification/tools/judge_run/run_schedule.hpp"
#include "verification/tools/judge_run/steps_suite.hpp"

namespace zeroproof::verification {
namespace {

/// "0.17": the largest error in units of its bound; "bits".
std::string cell_of(const Result& result) {
  if (result.status == Status::fail) return "WRONG";
  if (result.status != Status::pass) return "-";
  if (result.exactness == "named") return "named";
  if (result.exactness == "partial") return "partial";
  if (result.worst_ratio > 0) return fmt::format("{:.2g}", result.worst_ratio);
  return result.exactness == "bounded" ? "bits" : "right";
}

const Suite& judge_run_suite() {
  static const StepsSuite suite(
      "judge-run",
      {11,
       "number: largest error, where 1 is the bound of any legal order; bits: no error, or those\n"
       "of a known library; named: matrices of muon have the choices of their settings, for which\n"
       "there are neither bits nor a bound in bf16; partial: right as far as it was judged, but\n"
       "not all matrices of muon were; -: not recorded or not judged\n",
       cell_of, [](const Result& a, const Result& b) { return a.exactness == b.exactness; }});
  return suite;
}

}  // namespace

RunReport judge_run(const JudgeRunSettings& settings) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<RunSchedule> schedule;
  if (!settings.schedule.empty()) schedule.emplace(settings.schedule);
  const std::map<std::int64_t, std::vector<std::string>> steps = recorded_steps(settings.folder);
  const bool any = std::ranges::any_of(steps, [&](const auto& step) {
    return step.first >= settings.first && step.first <= settings.last;
  });
  ZP_CHECK(any, ErrorCode::config,
           fmt::format("no step from {} to {} is recorded", settings.first, settings.last),
           fmt::format("the recording has {} steps, from {} to {}", steps.size(),
                       steps.begin()->first, steps.rbegin()->first),
           "choose others with --steps");
  RunReport report;
  report.suites = {&judge_run_suite()};
  std::optional<RunStep> before;
  std::size_t done = 0;
  std::string programs;
  for (const auto& [number, files] : steps) {
    ++done;
    // The step before the first judged one has the state that it begins with.
    const bool needed = number <= settings.last && number + 1 >= settings.first;
    if (!needed) continue;
    if (settings.progress)
      settings.progress(static_cast<double>(done - 1) / static_cast<double>(steps.size()),
                        fmt::format("step {}", number));
    RunStep step = read_run_step(files);
    if (number >= settings.first) {
      const RunStep* last = before && before->number() + 1 == step.number() ? &*before : nullptr;
      const std::string replay =
          fmt::format("zeroproof judge-run {} --steps {}", shell_word(settings.folder), number) +
          (settings.schedule.empty() ? "" : " --schedule " + shell_word(settings.schedule));
      const std::string& program = step.ranks.front().program;
      for (const RunFindings& found :
           {judge_reduce(step, settings.phases), judge_overflow(step),
            judge_norm(step, settings.phases), judge_clip(step, settings.phases),
            judge_update(step, last), judge_cast(step), judge_state(step, last)})
        report.results.push_back(found.result(program, replay));
      if (schedule) report.results.push_back(schedule->judge(step).result(program, replay));
      const std::string who =
          fmt::format("{}, {} {}", program, step.world(), step.world() == 1 ? "rank" : "ranks");
      if (report.notes.empty() || report.notes.back() != who) {
        if (report.notes.size() < 8) report.notes.push_back(who);
      }
    }
    before = std::move(step);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace zeroproof::verification
