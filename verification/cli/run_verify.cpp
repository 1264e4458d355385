#include "verification/cli/run_verify.hpp"

#include <unistd.h>

#include <cstdio>

#include "verification/bundle.hpp"
#include "verification/experiment.hpp"
#include "verification/mpi_job.hpp"
#include "verification/progress.hpp"
#include "verification/report_files.hpp"
#include "verification/selection.hpp"

namespace zeroproof::verification {
namespace {

int nothing_matches(const VerifyOptions& options) {
  const std::string pattern = options.patterns.empty() ? "*" : options.patterns.front();
  const bool one_word = pattern.find_first_of("*?/") == std::string::npos;
  std::vector<std::string> known = workload_names();
  for (const Op& op : all_ops()) known.push_back(op.name);
  known.emplace_back("lbfgs");
  const std::string meant = one_word ? "did you mean " + nearest(pattern, known) + "? " : "";
  std::fprintf(
      stderr,
      "zeroproof: no case matches '%s' (nothing would be judged); %szeroproof list shows the case ids\n",
      pattern.c_str(), meant.c_str());
  return 4;
}

void write_reports(const RunReport& report, const ReportTargets& targets, bool strict) {
  for (const std::string& file : targets.json_files) write_report_file(file, to_json(report));
  for (const std::string& file : targets.junit_files) write_report_file(file, to_junit(report, strict));
  if (!targets.text) return;
  std::fputs(to_text(report, wants_colour(STDOUT_FILENO) && !inside_mpi_job()).c_str(), stdout);
  for (const std::string& file : targets.files()) std::printf("report: %s\n", file.c_str());
}

}  // namespace

void add_report_flags(CLI::App& command, VerifyRequest& request) {
  command.add_option("--report", request.reports,
                     "text, json:FILE, junit:FILE, or several with commas between (default: text)");
  command.add_flag("--strict", request.strict, "mistrusted cases count as failed");
  command.add_option("--save-failing", request.save_failing,
                     "folder that gets a bundle of every failing case, for zeroproof replay");
}

int run_verify(const VerifyRequest& request, RunReport* result) {
  const ReportTargets targets = parse_targets(request.reports);
  const VerifyOptions options = options_from(request.cases);
  const Selection selection = select_cases(options);
  if (selection.size() == 0) return nothing_matches(options);
  const bool root = mpi_job_rank() == 0;
  if (root) {
    for (const std::string& file : targets.files()) check_report_file(file);
    if (!request.save_failing.empty()) check_bundle_folder(request.save_failing);
  }
  RunReport report;
  {
    ProgressBar bar;
    report = run_selection(options, selection, [&](double fraction, const std::string& what) {
      if (!inside_mpi_job()) bar.show(fraction, what);
    });
  }
  if (root) {
    write_reports(report, targets, request.strict);
    if (!request.save_failing.empty()) {
      for (const std::string& folder : save_bundles(report, options, request.save_failing)) {
        if (targets.text) std::printf("saved: %s\n", folder.c_str());
      }
    }
  }
  if (result != nullptr) *result = report;
  return exit_code(report, request.strict);
}

}  // namespace zeroproof::verification
