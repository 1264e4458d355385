#include "verification/cli/expect.hpp"

#include <algorithm>
#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cli/flag_scope.hpp"
#include "verification/compare/tensors/set_report.hpp"
#include "verification/report/github.hpp"
#include "verification/report/report_files.hpp"
#include "verification/tools/train/dump/dump.hpp"
#include "verification/tools/train/dump/expected.hpp"
#include "verification/training/ranks/mpi_environment.hpp"

namespace zeroproof::verification {
namespace {

constexpr const char* expect_schema = "zeroproof-expect/1";

/// Flags that choose or judge candidates, of which there are none.
void refuse_candidate_flags(const VerifyRequest& request) {
  const auto refuse_if = [](bool given, const char* flag) {
    ZP_CHECK(!given, ErrorCode::config, std::string(flag) + " was given with --expect",
             "the file is compared with the undistributed optimizer, no case is run, and the flag "
             "would have no effect",
             "leave one of the two out");
  };
  for (const CaseFlag& flag : case_flags()) {
    if ((flag.applies & CaseFlag::expectation) == 0)
      refuse_if(flag.given(request.cases), flag.name);
  }
  refuse_if(!request.save_failing.empty(), "--save-failing");
  refuse_if(request.strict, "--strict");
  refuse_if(!request.dump.file.empty(), "--dump");
  refuse_if(!request.dump.steps.empty(), "--dump-steps");
  refuse_if(request.dump.gradients, "--dump-gradients");
  const std::vector<std::string>& sums = request.cases.grad_sums;
  refuse_if(std::find(sums.begin(), sums.end(), "native") != sums.end(), "--sum native");
}

std::string numbers(const std::vector<std::int64_t>& steps) {
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t i = 0; i < steps.size() && i < most; ++i)
    text += (i > 0 ? ", " : "") + std::to_string(steps[i]);
  return steps.size() > most ? text + ", ... " + std::to_string(steps.back()) : text;
}

std::string words(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& word : all) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// The order of operations of the expected numbers.
constexpr const char* dialect = "contract";

std::string text_of(const Expectation& found, const Experiment& experiment, const std::string& file,
                    bool rows) {
  std::string text =
      "theirs   " + file + "\nagainst  the undistributed optimizer: " + experiment.workload() +
      " " + experiment.recipe() + " " + std::string(name(experiment.param_dtype())) +
      "\nsteps    " + numbers(found.steps) + "\nstart    " +
      (found.start.empty() ? "the run's own" : "theirs, step 0: " + words(found.start)) +
      "\ndialect  " + dialect + "\n";
  if (!found.ignored.empty())
    text += "ignored  " + std::to_string(found.ignored.size()) + " tensors of theirs\n";
  text += "\n" + buffer_table(found.rows, [](const BufferRow& row) {
            return row.equal() ? std::string("equal")
                               : "differs from step " + std::to_string(row.first_step);
          });
  if (rows) text += "\n" + set_table(found.comparison, "the expectation", "their file", true);
  if (!found.first.empty()) text += "\n" + found.first;
  return text + (found.equal() ? "\nall bits are equal\n" : "\nnot equal\n");
}

std::string json_of(const Expectation& found, const Experiment& experiment,
                    const std::string& file) {
  Json tensors = Json::array(), buffers = Json::array();
  for (const TensorDifference& tensor : found.comparison.tensors)
    tensors.push_back(to_json_value(tensor));
  for (const BufferRow& row : found.rows) {
    Json buffer = to_json_value(row.totals);
    buffer["buffer"] = row.name;
    buffer["equal"] = row.equal();
    buffer["first_step"] = row.equal() ? Json() : Json(row.first_step);
    buffers.push_back(buffer);
  }
  const Json json = {{"schema", expect_schema},
                     {"theirs", file},
                     {"workload", experiment.workload()},
                     {"recipe", experiment.recipe()},
                     {"dtype", std::string(name(experiment.param_dtype()))},
                     {"dialect", dialect},
                     {"steps", Json(found.steps)},
                     {"start", Json(found.start)},
                     {"ignored", Json(found.ignored)},
                     {"equal", found.equal()},
                     {"first", found.first},
                     {"total", to_json_value(found.comparison.totals)},
                     {"buffers", buffers},
                     {"tensors", tensors}};
  return json.dump(1) + "\n";
}

}  // namespace

void check_expect_flags(const VerifyRequest& request) {
  ZP_CHECK(!request.expect.empty() || request.phase_names.empty(), ErrorCode::config,
           "--phase-names was given without --expect", "it maps the tensor names of that file",
           "add --expect FILE, or leave it out");
}

int run_expect(const VerifyRequest& request) {
  refuse_candidate_flags(request);
  ZP_CHECK(!inside_mpi_job(), ErrorCode::config, "--expect was given inside an MPI job",
           "every process would compare the same", "leave mpirun out");
  const ReportTargets targets = parse_targets(request.reports);
  ZP_CHECK(targets.junit_files.empty(), ErrorCode::config,
           "a report junit:FILE was requested with --expect", "JUnit lists cases, and none is run",
           "use text or json:FILE");
  for (const std::string& file : targets.files()) {
    check_report_file(file);
    check_not_input(file, {request.expect, request.phase_names, request.cases.gradients,
                           request.cases.config_file, request.cases.text});
  }
  require_applicable(request.cases);
  const VerifyOptions options = options_from(request.cases);
  const Selection selection = select_cases(options);
  if (!selection.unmatched.empty()) return nothing_matches(options, selection);
  const Experiment experiment = experiment_of(options, only_trajectory(selection, "--expect"));
  const DumpPlan plan(experiment, DumpPlan::Content::gradients);
  const PhaseNames names =
      request.phase_names.empty() ? PhaseNames() : PhaseNames::read(request.phase_names, plan);
  const Expectation found = compare_expected(experiment, plan, request.expect, names);
  if (targets.text)
    std::fputs(text_of(found, experiment, request.expect, request.rows).c_str(), stdout);
  if (targets.github && !found.equal()) {
    const std::string& source = *targets.github;
    std::fputs(github_command("error", {source.empty() ? request.expect : source},
                              "zeroproof: not equal", found.first)
                   .c_str(),
               stdout);
  }
  for (const std::string& file : targets.json_files) {
    write_report_file(file, json_of(found, experiment, request.expect));
    if (targets.text) std::printf("report: %s\n", file.c_str());
  }
  return found.equal() ? 0 : 1;
}

}  // namespace zeroproof::verification
