#include "verification/selection.hpp"

#include <algorithm>
#include <chrono>

#include "common/base/error.hpp"
#include "verification/experiment.hpp"
#include "verification/mpi_job.hpp"

namespace zeroproof::verification {
namespace {

bool wanted(const VerifyOptions& options, Twin twin) {
  return options.twins.empty() ||
         std::find(options.twins.begin(), options.twins.end(), twin) != options.twins.end();
}

void add_ops(Selection& selection, const VerifyOptions& options, const std::string& pattern) {
  for (const OpCaseSpec& spec : op_cases(pattern)) {
    const auto same = [&](const OpCaseSpec& other) { return other.id() == spec.id(); };
    const bool there = std::any_of(selection.ops.begin(), selection.ops.end(), same);
    if (!there && wanted(options, spec.device ? Twin::device : Twin::host)) selection.ops.push_back(spec);
  }
}

void add_lbfgs(Selection& selection, const VerifyOptions& options, const std::string& pattern) {
  ZP_CHECK(options.gradients.empty(), ErrorCode::config, "'" + pattern + "' was asked for with --gradients",
           "L-BFGS evaluates the model at points that no recording holds", "leave one of the two out");
  for (const LbfgsCaseSpec& spec : lbfgs_cases(pattern)) {
    const auto same = [&](const LbfgsCaseSpec& other) { return other.id() == spec.id(); };
    const bool there = std::any_of(selection.lbfgs.begin(), selection.lbfgs.end(), same);
    if (!there && wanted(options, Twin::host)) selection.lbfgs.push_back(spec);
  }
}

void add_controls(Selection& selection, const std::string& pattern) {
  for (const Control* control : matching_controls(pattern)) {
    auto& chosen = selection.controls;
    if (std::find(chosen.begin(), chosen.end(), control) == chosen.end()) chosen.push_back(control);
  }
}

std::vector<CheckResult> run_lbfgs(const VerifyOptions& options, const std::vector<LbfgsCaseSpec>& cases,
                                   const ProgressSink& progress) {
  if (cases.empty()) return {};
  LbfgsRunOptions run;
  run.config = config_of(options, "byte_gpt_tiny");
  run.fault = options.fault;
  run.replay_line = [&](const std::string& id) { return replay_line(options, id); };
  run.progress = progress;
  return run_lbfgs_cases(cases, run);
}

}  // namespace

std::vector<std::string> Selection::ids() const {
  std::vector<std::string> ids;
  for (const CaseSpec& spec : steps) ids.push_back(spec.id());
  for (const OpCaseSpec& spec : ops) ids.push_back(spec.id());
  for (const LbfgsCaseSpec& spec : lbfgs) ids.push_back(spec.id());
  for (const Control* control : controls) ids.push_back(control->id());
  return ids;
}

Selection select_cases(const VerifyOptions& options) {
  Selection selection;
  VerifyOptions for_steps = options;
  for_steps.patterns.clear();
  for (const std::string& pattern : options.patterns) {
    if (names_ops(pattern)) {
      add_ops(selection, options, pattern);
    } else if (names_lbfgs(pattern)) {
      add_lbfgs(selection, options, pattern);
    } else if (names_controls(pattern)) {
      add_controls(selection, pattern);
    } else {
      for_steps.patterns.push_back(pattern);
    }
  }
  if (options.patterns.empty() || !for_steps.patterns.empty()) selection.steps = selected_cases(for_steps);
  return selection;
}

RunReport run_selection(const VerifyOptions& options, const Selection& selection,
                        const ProgressSink& progress) {
  const auto begin = std::chrono::steady_clock::now();
  const RunConfig config = config_of(options, workload_names().front());
  ZP_CHECK(selection.ops.empty() || !inside_mpi_job(), ErrorCode::config,
           "operations were asked for inside an MPI job", "every process would run them again",
           "leave mpirun out");
  ZP_CHECK(selection.lbfgs.empty() || !inside_mpi_job(), ErrorCode::config,
           "L-BFGS was asked for inside an MPI job", "every process would run it again", "leave mpirun out");
  ZP_CHECK(selection.controls.empty() || !inside_mpi_job(), ErrorCode::config,
           "controls were asked for inside an MPI job", "every process would run them again",
           "leave mpirun out");
  RunReport report;
  if (!selection.steps.empty()) {
    report = run_cases(options, selection.steps, progress);
  } else {
    report.capabilities = capabilities();
  }
  OpRunOptions ops;
  ops.seed = config.seed;
  ops.fault = options.fault;
  ops.replay_line = [&](const std::string& id) { return replay_line(options, id); };
  ops.progress = progress;
  report.checks = run_op_cases(selection.ops, ops);
  for (CheckResult& result : run_lbfgs(options, selection.lbfgs, progress)) {
    report.checks.push_back(std::move(result));
  }
  for (const Control* control : selection.controls) {
    progress(1.0, control->id());
    report.checks.push_back(run_control(*control, config.seed, replay_line(options, control->id())));
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace zeroproof::verification
