#pragma once
// Everything a run found, ready to be written as text or JSON.

#include <optional>
#include <string>
#include <vector>

#include "verification/capabilities.hpp"
#include "verification/case.hpp"
#include "verification/check_result.hpp"

namespace zeroproof::verification {

/// One step of the undistributed reference: what a loss curve shows.
struct TrainingStep {
  double loss = 0;       ///< mean over micro-batches, nats per byte
  double grad_norm = 0;  ///< NaN if skipped
  float clip_coef = 1;   ///< NaN if skipped
  int log2_loss_scale = 0;
  bool skipped = false;
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
};

struct InputInfo {
  std::string kind, path;
  std::int64_t bytes = 0;
};

struct RunReport {
  std::vector<Capability> capabilities;
  InputInfo input;
  std::vector<TrainingTrace> traces;
  std::vector<CaseResult> cases;
  std::vector<CheckResult> checks;  ///< operations and controls
  double seconds = 0;

  std::int64_t count(Status status) const;
};

/// interfaces: 0 all passed, 1 something failed (or, with strict, is mistrusted), 5 hung, 6 crashed, 9 error,
/// 4 nothing judged. The worst one wins.
int exit_code(const RunReport& report, bool strict);

/// The report as JSON, schema "zeroproof-report/1", with a line break at the end.
std::string to_json(const RunReport& report);

/// The cases of a report written by to_json. Errors (ErrorCode::io): not such a report.
std::vector<CaseResult> cases_from_json(const std::string& text);

/// The report as JUnit XML: a suite per workload and operation. With strict, mistrusted cases are failures.
std::string to_junit(const RunReport& report, bool strict);

/// Tables for people, at most 100 columns wide.
std::string to_text(const RunReport& report, bool colour);

}  // namespace zeroproof::verification
