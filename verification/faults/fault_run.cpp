#include <algorithm>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/program/plant.hpp"
#include "verification/faults/fault_plan.hpp"

namespace zeroproof::verification {
namespace {

template <class Value>
bool fits(const std::optional<Value>& expected, const Value& found) {
  return !expected || *expected == found;
}

}  // namespace

FaultFinding judge_fault(const Fault& fault, const FaultCase& expected, const RowOutcome& outcome) {
  const bool named = outcome.reason.find(expected.says) != std::string::npos;
  FaultFinding finding{&fault,        &expected, outcome.status == Status::fail,
                       false,         false,     outcome.divergence,
                       outcome.reason};
  if (expected.refused) {
    finding.caught = finding.attributed = finding.exact = outcome.status == Status::error && named;
    return finding;
  }
  if (!finding.caught || !outcome.divergence) return finding;
  const Divergence& d = *outcome.divergence;
  // No predicted element: the divergence may not name one.
  const Elements elements = expected.elements.value_or(Elements{"", -1, -1});
  finding.attributed = d.phase == fault.phase && d.buffer == expected.buffer && named &&
                       fits(elements.parameter, std::string_view(d.parameter));
  finding.exact = finding.attributed && d.step == expected.step && d.rank == expected.rank &&
                  fits(elements.first, d.global_index) && fits(elements.last, d.last_global_index);
  return finding;
}

RowOutcome run_one_case(const VerifyOptions& options) {
  const RunReport report =
      run_selection(options, select_cases(options), [](double, const std::string&) {});
  const Result& result = report.results.front();
  return {result.status, result.reason, result.divergence};
}

RowOutcome run_row(const FaultCase& row, std::string_view fault, Mode mode) {
  std::string id(row.case_id);
  const std::size_t lockstep = id.find("lockstep");
  if (mode == Mode::free && lockstep != std::string::npos) id.replace(lockstep, 8, "free");
  VerifyOptions options;
  options.patterns = {id};
  options.fault = fault;
  if (row.gradients != nullptr) options.gradients = row.gradients();
  options.overrides = [&row](RunConfig& config) {
    // A fault may leave a rank waiting; without one the ranks, threads of this process, arrive
    // within the timeout.
    config.comm_timeout_s = 10;
    if (row.config != nullptr) row.config(config);
  };
  return run_one_case(options);
}

const FaultCase& plan_of(std::string_view fault) {
  const auto row = std::ranges::find(fault_plan(), fault, &FaultCase::fault);
  ZP_CHECK(row != fault_plan().end(), ErrorCode::internal,
           "no case of the fault plan lists " + std::string(fault),
           "every fault needs a case that must catch it",
           "add a row to verification/faults/fault_plan.cpp");
  return *row;
}

int FaultReport::survivors() const {
  return static_cast<int>(
      std::ranges::count_if(faults, [](const FaultFinding& f) { return !f.caught; }));
}

int FaultReport::false_alarms() const {
  return static_cast<int>(std::ranges::count_if(
      controls, [](const ControlFinding& c) { return c.status != Status::pass; }));
}

std::vector<const Fault*> chosen_faults(const std::vector<std::string>& patterns) {
  std::vector<const Fault*> chosen;
  std::vector<std::string> ids;
  for (const Fault& fault : fault_catalogue()) {
    ids.emplace_back(fault.id);
    const bool wanted =
        patterns.empty() || std::ranges::any_of(patterns, [&](const std::string& pattern) {
          return matches(pattern, std::string(fault.id));
        });
    if (wanted) chosen.push_back(&fault);
  }
  ZP_CHECK(!chosen.empty(), ErrorCode::config, "no fault matches '" + patterns.front() + "'",
           "no id matches the pattern",
           suggestion(patterns.front(), ids, "zeroproof list --faults prints the ids"));
  return chosen;
}

FaultReport run_faults(const std::vector<std::string>& patterns, const ProgressSink& progress) {
  ZP_CHECK(faults_built(), ErrorCode::unavailable, "this program has no planted faults",
           "only the test program is linked with them",
           "use build/zeroproof-faults, which ./tests/run builds");
  const std::vector<const Fault*> chosen = chosen_faults(patterns);

  FaultReport report;
  const double total = 2.0 * static_cast<double>(chosen.size());
  for (const Fault* fault : chosen) {
    progress(static_cast<double>(report.faults.size()) / total, std::string(fault->id));
    const FaultCase& row = plan_of(fault->id);
    report.faults.push_back(judge_fault(*fault, row, run_row(row, fault->id, Mode::lockstep)));
    const FaultFinding& finding = report.faults.back();
    auto control = std::ranges::find_if(report.controls, [&](const ControlFinding& other) {
      return other.case_id == row.case_id && other.row->config == row.config;
    });
    if (control == report.controls.end()) {
      control = report.controls.insert(control,
                                       ControlFinding{row.case_id, &row, Status::error, "", 0, 0});
    }
    ++control->listed;
    control->killed += finding.caught ? 1 : 0;
  }
  for (std::size_t i = 0; i < report.controls.size(); ++i) {
    ControlFinding& control = report.controls[i];
    progress(0.5 + 0.5 * static_cast<double>(i) / static_cast<double>(report.controls.size()),
             "no fault: " + std::string(control.case_id));
    const RowOutcome result = run_row(*control.row, "", Mode::lockstep);
    control.status = result.status;
    control.reason = result.reason;
  }
  progress(1.0, "done");
  return report;
}

int exit_code(const FaultReport& report) {
  const bool good = std::ranges::all_of(report.faults, &FaultFinding::exact) &&
                    report.false_alarms() == 0 &&
                    std::ranges::none_of(report.controls, &ControlFinding::mistrusted);
  return good ? 0 : 1;
}

}  // namespace zeroproof::verification
