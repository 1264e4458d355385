#pragma once
// Two recordings of one training under two settings, compared step by step and phase by phase.

#include <functional>
#include <string>

#include "verification/cases/run_report.hpp"
#include "verification/tools/judge_run/pair_phases.hpp"

namespace zeroproof::verification {

struct JudgeAgainstSettings {
  std::array<std::string, 2> folders;        ///< A, and B that it is compared with
  std::int64_t first = 1, last = INT64_MAX;  ///< steps
  PairSettings phases;
  /// Before each step; may be empty.
  std::function<void(double fraction, const std::string& what)> progress;
};

/// A case of the suite against for each step and phase. Errors (ErrorCode::io): as recorded_steps and read_run_step, a
/// step that one side lacks, and recordings of two trainings; (ErrorCode::config): no step in the range.
RunReport judge_against(const JudgeAgainstSettings& settings);

}  // namespace zeroproof::verification
