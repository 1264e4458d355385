#pragma once
// The recording of a training run, judged step by step and phase by phase.

#include <functional>
#include <string>

#include "verification/cases/run_report.hpp"
#include "verification/tools/judge_run/run_findings.hpp"

namespace zeroproof::verification {

struct JudgeRunSettings {
  std::string folder;
  std::int64_t first = 1, last = INT64_MAX;  ///< steps
  RunJudgeSettings phases;
  std::string schedule;  ///< file of settings that the rates are judged by, "" for none
  /// Before each step; may be empty.
  std::function<void(double fraction, const std::string& what)> progress;
};

/// A case of the suite judge-run for each step and phase. Errors (ErrorCode::io): as recorded_steps and
/// read_run_step; (ErrorCode::config): no recorded step is in the range, and as RunSchedule.
RunReport judge_run(const JudgeRunSettings& settings);

}  // namespace zeroproof::verification
