#pragma once
// The results of a run, to be written as text or JSON.

#include <optional>
#include <string>
#include <vector>

#include "verification/cases/result.hpp"
#include "verification/cli/program/capabilities.hpp"

namespace zeroproof::verification {

/// A clip group besides the default one, in one step.
struct ClipGroupStep {
  std::string name;
  double grad_norm = 0;  ///< NaN if skipped
  float clip_coef = 1;   ///< NaN if skipped
};

/// One step of the undistributed reference, for loss curves.
struct TrainingStep {
  double loss = 0;       ///< mean over micro-batches, nats per byte
  double grad_norm = 0;  ///< of the default clip group; NaN if skipped
  float clip_coef = 1;   ///< the same
  int log2_loss_scale = 0;
  bool skipped = false;
  std::vector<ClipGroupStep> clip_groups = {};  ///< all but the default one
};

struct TrainingTrace {
  std::string workload;
  std::string recipe = "adamw";
  DType dtype = DType::bf16;
  std::int64_t parameters = 0;
  std::int64_t micro_batches = 0;
  int context = 0;
  std::vector<TrainingStep> steps;
  std::optional<Digest> hash;
  GradSum grad_sum = GradSum::tree;
  std::int64_t first_step = 1;
};

struct InputInfo {
  std::string kind, path;
  std::int64_t bytes = 0;
};

class Suite;

/// Code that both sides share, against committed digests (judge/self_test.hpp).
struct SelfTest {
  std::int64_t rows = 0;
  std::vector<std::string> differing;  ///< names of rows
  std::string not_run;                 ///< why not; "" if it ran
};

/// One setting of a run with --cover, and its values in passing cases.
struct VisitedAxis {
  struct Share {
    std::int64_t visited = 0, possible = 0;
  };
  std::string name;
  Share values;
  std::vector<Share> pairs;  ///< of its values with those of each axis before it
};

struct RunReport {
  std::vector<Capability> capabilities;
  InputInfo input;
  std::optional<SelfTest> self_test;
  std::vector<TrainingTrace> traces;
  std::vector<const Suite*> suites;  ///< suite of the cases
  std::vector<Result> results;       ///< in the order of the suites
  std::string held_to;  ///< "the dialect torch-cpu-fused", "any legal order"; "" for the contract
  std::vector<std::string> notes;  ///< omissions with their reasons, drawn numbers
  std::vector<VisitedAxis> axes;   ///< with --cover
  double seconds = 0;

  std::int64_t count(Status status) const;
};

/// Exit codes: 0 all passed, 1 a case or a row of the self-test failed (with strict also: is
/// mistrusted), 5 hung, 6 crashed, 9 error, 4 nothing judged or everything mistrusted: never 0
/// without a pass. The worst one is returned.
int exit_code(const RunReport& report, bool strict);

/// The report as JSON, schema "zeroproof-report/2" (report/report.schema.json), with a line break at
/// the end.
std::string to_json(const RunReport& report);

/// The results of a report written by to_json. Errors (ErrorCode::io): not such a report.
std::vector<Result> results_from_json(const std::string& text);

/// The report as JUnit XML: a suite per group of results. With strict, mistrusted cases are failures.
std::string to_junit(const RunReport& report, bool strict);

/// The report as one HTML page without external resources, well-formed as XML: the verdict as text,
/// and as JSON that its script draws: first differences, trainings, visited settings, cases that
/// were not judged, the machine.
std::string to_html(const RunReport& report, bool strict);

/// The format of the text report.
struct TextStyle {
  bool colour = false;
  bool rows = false;   ///< a row for every case, step and buffer, besides the totals
  bool bytes = false;  ///< and the memory and traffic of every rank
};

/// Tables for people, at most 100 columns wide.
std::string to_text(const RunReport& report, const TextStyle& style);

}  // namespace zeroproof::verification
