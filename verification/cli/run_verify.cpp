#include "verification/cli/run_verify.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/cases/config/acceptance.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/pairwise/visited.hpp"
#include "verification/cases/suites/bundle.hpp"
#include "verification/cli/chosen_cases.hpp"
#include "verification/cli/evidence.hpp"
#include "verification/cli/partial_report.hpp"
#include "verification/cli/program/interruption.hpp"
#include "verification/cli/write_reports.hpp"
#include "verification/compare/judge/self_test.hpp"
#include "verification/interfaces/plugin/plugin_ops.hpp"
#include "verification/ops/op_expectation.hpp"
#include "verification/report/progress.hpp"
#include "verification/report/report_files.hpp"
#include "verification/report/source_state.hpp"
#include "verification/report/verdict_lines.hpp"
#include "verification/training/ranks/job_guard.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace zeroproof::verification {
namespace {

/// True if a case that the user requested by name was skipped: a resource may become unavailable
/// during a run.
bool skipped_by_name(const CaseFlags& flags, const RunReport& report) {
  return std::any_of(report.results.begin(), report.results.end(), [&](const Result& result) {
    return result.status == Status::skipped && asked_by_name(flags, result.id);
  });
}

/// Rank 0 reports, unless it waits for this rank inside a library and is ended first.
void say_what_broke(const RunReport& report) {
  for (const Result& result : report.results) {
    if (result.status < Status::skipped) continue;  // it was judged
    std::fprintf(stderr, "[rank %d] %s: %s\n", mpi_job_rank(), result.id.c_str(),
                 printable(result.reason).c_str());
  }
}

}  // namespace

int nothing_matches(const VerifyOptions& options, const Selection& selection) {
  const std::string& pattern = selection.unmatched.front();
  const std::string complete = completed_id(options, pattern);
  std::vector<std::string> known;
  for (const Suite* suite : all_suites()) {
    for (std::string& word : suite->words()) known.push_back(std::move(word));
  }
  const bool one_word = pattern.find_first_of("*?/") == std::string::npos;
  const std::string near = one_word ? nearest(pattern, known) : "";
  std::string why = "it would select nothing";
  std::string hint =
      (near.empty() ? "" : "did you mean " + near + "? ") + "zeroproof list shows the ids";
  if (!complete.empty()) {
    why = "an incomplete id selects only cases that zeroproof list shows";
    hint = "write the complete id, as in " + complete;
  }
  std::fprintf(stderr, "zeroproof: %s\n",
               sentence("no case matches '" + pattern + "' (" + why + "); " + hint).c_str());
  return 4;
}

void add_report_flags(const Command& command, VerifyRequest& request) {
  command.words(
      "--report", request.reports,
      "text, json:FILE, junit:FILE, html:FILE, github (annotations and job summary of GitHub; "
      "github:SOURCE names the file to annotate), or several with commas between (default: text)");
  command.flag("--rows", request.rows, "a row for every case, step and buffer, besides the totals");
  command.flag(
      "--bytes", request.bytes,
      "bytes that every rank held by class of memory and sent by collective, with the prediction");
  command.flag("--strict", request.strict, "mistrusted cases count as failed");
  command.option("--save-failing", request.save_failing,
                 "folder that gets a bundle of every failing case, for zeroproof replay");
}

int run_verify(const VerifyRequest& request, RunReport* result) {
  const ReportTargets targets = parse_targets(request.reports);
  const auto& [options, selection] = choose_cases(request.cases);
  if (!selection.unmatched.empty()) return nothing_matches(options, selection);
  check_dump(request.dump, options, selection);
  const bool root = mpi_job_rank() == 0;
  const bool with_evidence = !request.evidence.empty();
  std::optional<DeterminismEvidence> evidence;
  if (root) {
    for (const std::string& file : targets.files()) check_report_file(file);
    if (!request.save_failing.empty()) check_bundle_folder(request.save_failing);
    if (with_evidence) {
      check_evidence_file(request.evidence, request.cases);
      check_selection(options, selection);
      evidence = declared_evidence(request.cases, options, selection);
      // An ended run leaves the declaration, never the evidence of an earlier run.
      write_report_file(request.evidence, to_json(*evidence));
      const std::string problem = source_problem(evidence->source);
      if (!problem.empty())
        std::fprintf(stderr, "note: no case of this evidence will be verified: %s\n",
                     printable(problem).c_str());
    }
  }
  const auto write_all = [&](const RunReport& report) {
    const TextStyle style{wants_colour(STDOUT_FILENO) && !inside_mpi_job(), request.rows,
                          request.bytes};
    write_reports(report, targets, style, request.strict, request.cases.plugin);
  };
  RunReport report;
  {
    ProgressBar bar;
    VerifyOptions observed = options;
    PartialReport partial(selection);
    std::unique_ptr<Interruption> interruption;  // the launcher of a rank handles signals
    if (!inside_mpi_job()) {
      observed.on_results = [&](Span<const Result> results) { partial.add(results); };
      interruption = std::make_unique<Interruption>([&](int signal) {
        const RunReport so_far =
            partial.ended_by(signal_name(signal));  // before a job of ours is called crashed
        end_guarded_job();
        write_all(so_far);
        std::fflush(stdout);
      });
      observed.on_verdicts = [&](Span<const Result> results) { bar.say(verdict_lines(results)); };
    } else {
      observed.on_verdicts = RankNotes::finished;
    }
    double done = 0;
    const auto show = [&](double fraction, const std::string& what) {
      if (!inside_mpi_job()) bar.show(done + (1 - done) * fraction, what);
    };
    EvidenceRun other;
    if (with_evidence) {
      other = run_for_evidence(options, selection, [&](double fraction, const std::string& what) {
        show(0.7 * fraction, what);
      });
      done = 0.7;
    }
    report = run_selection(observed, selection, show);
    if (evidence) finish_evidence(*evidence, other, report);
    if (!inside_mpi_job()) report.self_test = run_self_test();
  }
  report.held_to = Acceptance{options.any_order, options.fp32_powers,
                              options.expectation ? options.expectation->name() : ""}
                       .text();
  if (root && !request.cases.cover.empty()) {
    std::vector<CaseSpec> passed;
    for (const Result& result : report.results) {
      if (result.training && result.status == Status::pass) passed.push_back(training_spec(result));
    }
    report.axes = axis_matrix(coverage_of(options, passed, Strength::pairs));
  }
  if (!root && started_by_zeroproof()) say_what_broke(report);
  end_plugin_process();
  if (root) {
    write_all(report);
    if (evidence) {
      write_report_file(request.evidence, to_json(*evidence));
      if (targets.text) std::printf("evidence: %s\n", printable(request.evidence).c_str());
    }
    for (const Result& result : report.results) {
      if (result.flights.empty()) continue;
      std::fprintf(stderr, "last collectives of the ranks of %s:\n%s", result.id.c_str(),
                   printable_lines(flights_text(result.flights)).c_str());
    }
    if (!request.save_failing.empty()) {
      for (const std::string& folder : save_bundles(report, options, request.save_failing)) {
        if (!targets.text) continue;
        std::printf("saved: %s\n  replay    %s\n", printable(folder).c_str(),
                    printable(bundle_line(options, folder)).c_str());
      }
    }
    if (!request.dump.file.empty()) {
      const std::string line = make_dump(request.dump, options, selection);
      if (targets.text) std::printf("%s\n", line.c_str());
    }
  }
  if (root && targets.text && !request.cases.blind.empty() && !inside_mpi_job()) {
    std::fputs(blind_line(request.cases, options, report.results.front().id).c_str(), stdout);
  }
  if (result != nullptr) *result = report;
  const int code = exit_code(report, request.strict);
  if ((code == 0 || code == 4) && root && skipped_by_name(request.cases, report)) return 3;
  return code;
}

}  // namespace zeroproof::verification
