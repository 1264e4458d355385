#include "verification/tools/judge_run/judge_run.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/cases/suite.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/judge_run/run_schedule.hpp"

namespace zeroproof::verification {
namespace {

/// One step, or consecutive steps with the same verdicts.
struct StepRow {
  std::int64_t first = 0, last = 0;
  std::vector<const Result*> worst;  ///< [phases]

  /// The same statuses; "wrong" rows stay separate.
  bool joins(const StepRow& next) const {
    for (std::size_t k = 0; k < worst.size(); ++k) {
      if (worst[k] == nullptr || next.worst[k] == nullptr ||
          worst[k]->status != next.worst[k]->status || failed(worst[k]->status))
        return false;
    }
    return true;
  }
};

/// "0.17": the largest error in units of its bound; "bits".
std::string cell_of(const Result* result) {
  if (result == nullptr) return "";
  if (result->status == Status::fail) return "WRONG";
  if (result->status != Status::pass) return "-";
  if (result->worst_ratio > 0) return fmt::format("{:.2g}", result->worst_ratio);
  return result->exactness == "bounded" ? "bits" : "right";
}

/// Phases of each step.
std::size_t phases_of(const RunReport& report) {
  const std::size_t all = num_run_phases + 1;
  const bool has_rates = report.results.size() >= all && report.results[all - 1].group == "rate";
  return has_rates ? all : num_run_phases;
}

std::vector<StepRow> rows_of(const RunReport& report) {
  std::vector<StepRow> rows;
  const std::size_t phases = phases_of(report);
  for (std::size_t i = 0; i + phases <= report.results.size(); i += phases) {
    StepRow row;
    row.worst.resize(phases);
    const std::string& id = report.results[i].id;
    row.first = row.last = std::stoll(id.substr(id.rfind("step") + 4));
    for (std::size_t k = 0; k < row.worst.size(); ++k) row.worst[k] = &report.results[i + k];
    if (rows.empty() || !rows.back().joins(row)) {
      rows.push_back(row);
      continue;
    }
    rows.back().last = row.last;
    for (std::size_t k = 0; k < row.worst.size(); ++k) {
      if (row.worst[k]->worst_ratio > rows.back().worst[k]->worst_ratio)
        rows.back().worst[k] = row.worst[k];
    }
  }
  return rows;
}

/// The suite of a recording, whose cases exist when they are judged.
class JudgeRunSuite final : public Suite {
 public:
  std::string name() const override { return "judge-run"; }
  std::vector<std::string> ids(const VerifyOptions&, const std::string&) const override {
    return {};
  }
  void run(const VerifyOptions&, const std::vector<std::string>&, RunReport&,
           const ProgressSink&) const override {}

  std::string table(const RunReport& report, const TextStyle& style) const override {
    const Paint paint{style.colour};
    constexpr std::size_t most_rows = 40;
    std::string out = fmt::format("\n{:<14}", "step");
    for (std::size_t k = 0; k < phases_of(report); ++k)
      out += fmt::format("{:>11}", verification::name(static_cast<RunPhase>(k)));
    out += "\n";
    const std::vector<StepRow> rows = rows_of(report);
    for (std::size_t i = 0; i < rows.size() && i < most_rows; ++i) {
      const StepRow& row = rows[i];
      out += fmt::format("{:<14}", row.first == row.last
                                       ? std::to_string(row.first)
                                       : fmt::format("{} to {}", row.first, row.last));
      for (const Result* result : row.worst) {
        const std::string padded = fmt::format("{:>11}", cell_of(result));
        out += result != nullptr && failed(result->status) ? paint("31", padded) : padded;
      }
      out += "\n";
    }
    if (rows.size() > most_rows)
      out += fmt::format("... and {} more rows; the JSON report has every step\n",
                         grouped(static_cast<std::int64_t>(rows.size() - most_rows)));
    return out +
           "number: largest error, where 1 is the bound of any legal order; bits: no error, or "
           "those\n"
           "of a known library; -: not recorded or not judged\n";
  }
};

const Suite& judge_run_suite() {
  static const JudgeRunSuite suite;
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
