#include "verification/cli/expect.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/base/error.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/flag_scope.hpp"
#include "verification/compare/tensors/set_report.hpp"
#include "verification/report/format.hpp"
#include "verification/report/github.hpp"
#include "verification/report/report_files.hpp"
#include "verification/report/report_style.hpp"
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
  refuse_if(!request.evidence.empty(), "--evidence");
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

/// "0.43 of its bound", or "equal" for numbers with one result in every order.
std::string legal_text(const Expectation& found, const DumpPlan& plan, const BufferRow& row) {
  const BufferRow& beyond = *std::ranges::find(found.beyond, row.name, &BufferRow::name);
  double share = 0;
  std::int64_t unjudged = 0;
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    if (plan.buffers()[found.tensors[i].buffer].name != row.name) continue;
    share = std::max(share, found.legal->shares[i]);
    unjudged += found.legal->unjudged[i];
  }
  if (!beyond.equal() && !(share > 1))
    return fmt::format("differs from step {}", beyond.first_step);
  if (!beyond.equal()) return fmt::format("beyond its bound from step {}", beyond.first_step);
  if (unjudged > 0) return fmt::format("{} not judged", grouped(unjudged));
  return share > 0 ? fmt::format("{:.2g} of its bound", share) : "equal";
}

/// The last line.
std::string conclusion(const Expectation& found) {
  if (found.equal()) return "all bits are equal";
  if (!found.legal) return "not equal";
  if (!found.legal->beyond.equal()) return "in no legal order";
  if (found.legal->num_unjudged > 0)
    return fmt::format(
        "not judged: {} elements are outside the conditions of their bounds (intermediate values "
        "of "
        "2^127\nand above, or a denominator near 0), and their bits differ",
        grouped(found.legal->num_unjudged));
  return fmt::format("within the bounds of any legal order: at most {:.2g} of them",
                     found.legal->share);
}

std::string text_of(const Expectation& found, const DumpPlan& plan, const Experiment& experiment,
                    const std::string& file, bool rows) {
  std::string text =
      "theirs   " + file + "\nagainst  the undistributed optimizer: " + experiment.workload() +
      " " + experiment.recipe() + " " + std::string(name(experiment.param_dtype())) +
      "\nsteps    " + numbers(found.steps) + "\nstart    " +
      (found.start.empty() ? "the run's own" : "theirs, step 0: " + words(found.start)) +
      "\ndialect  " + dialect + "\n";
  if (found.legal)
    text += std::string("accept   any-order, with betas ") +
            (found.legal->fp64_betas ? "in fp64\n" : "rounded to fp32\n");
  if (!found.ignored.empty())
    text += "ignored  " + std::to_string(found.ignored.size()) + " tensors of theirs\n";
  text += "\n" + buffer_table(found.rows, [&](const BufferRow& row) {
            if (found.legal) return legal_text(found, plan, row);
            return row.equal() ? std::string("equal")
                               : "differs from step " + std::to_string(row.first_step);
          });
  if (rows) text += "\n" + set_table(found.comparison, "the expectation", "their file", true);
  const std::string& first = found.legal ? found.legal->first : found.first;
  if (!first.empty()) text += "\n" + first;
  return text + "\n" + conclusion(found) + "\n";
}

std::string json_of(const Expectation& found, const Experiment& experiment,
                    const std::string& file) {
  Json tensors = Json::array(), buffers = Json::array();
  for (std::size_t i = 0; i < found.comparison.tensors.size(); ++i) {
    Json tensor = to_json_value(found.comparison.tensors[i]);
    if (found.legal) {
      const double share = found.legal->shares[i];
      tensor["share_of_bound"] = std::isfinite(share) ? Json(share) : Json("inf");
      tensor["beyond_bound"] = found.legal->beyond.tensors[i].bits.differing;
      tensor["not_judged"] = found.legal->unjudged[i];
    }
    tensors.push_back(tensor);
  }
  for (const BufferRow& row : found.rows) {
    Json buffer = to_json_value(row.totals);
    buffer["buffer"] = row.name;
    buffer["equal"] = row.equal();
    buffer["first_step"] = row.equal() ? Json() : Json(row.first_step);
    buffers.push_back(buffer);
  }
  Json json = {{"schema", expect_schema},
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
  if (found.legal) {
    const double share = found.legal->share;
    json["legal"] = {{"accepted", found.legal->accepted()},
                     {"betas", found.legal->fp64_betas ? "fp64" : "fp32"},
                     {"share_of_bound", std::isfinite(share) ? Json(share) : Json("inf")},
                     {"beyond_bound", found.legal->beyond.totals.differing},
                     {"not_judged", found.legal->num_unjudged},
                     {"first", found.legal->first}};
  }
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
  CaseFlags flags = request.cases;
  const bool any_order = flags.accept == "any-order";
  ZP_CHECK(any_order || flags.accept.empty() || flags.accept == "bits", ErrorCode::config,
           "--accept is '" + flags.accept + "'", "it selects how the numbers are compared",
           suggestion(flags.accept, {"bits", "any-order"}));
  flags.accept.clear();  // of plug-ins otherwise
  require_applicable(flags);
  const VerifyOptions options = options_from(flags);
  const Selection selection = select_cases(options);
  if (!selection.unmatched.empty()) return nothing_matches(options, selection);
  const Experiment experiment = experiment_of(options, only_trajectory(selection, "--expect"));
  const DumpPlan plan(experiment, DumpPlan::Content::gradients);
  const PhaseNames names =
      request.phase_names.empty() ? PhaseNames() : PhaseNames::read(request.phase_names, plan);
  const Expectation found = compare_expected(experiment, plan, request.expect, names, any_order);
  if (targets.text)
    std::fputs(text_of(found, plan, experiment, request.expect, request.rows).c_str(), stdout);
  const bool accepted = found.legal ? found.legal->accepted() : found.equal();
  if (targets.github && !accepted) {
    const std::string& source = *targets.github;
    std::fputs(github_command("error", {source.empty() ? request.expect : source},
                              "zeroproof: " + conclusion(found),
                              found.legal ? found.legal->first : found.first)
                   .c_str(),
               stdout);
  }
  for (const std::string& file : targets.json_files) {
    write_report_file(file, json_of(found, experiment, request.expect));
    if (targets.text) std::printf("report: %s\n", file.c_str());
  }
  const bool only_unjudged = found.legal && found.legal->beyond.equal();
  return accepted ? 0 : only_unjudged ? 4 : 1;
}

}  // namespace zeroproof::verification
