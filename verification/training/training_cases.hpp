#pragma once

#include <utility>
#include <vector>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// The training cases of a report, each with its parsed id.
using TrainingCases = std::vector<std::pair<CaseSpec, const Result*>>;

inline TrainingCases training_cases(const RunReport& report) {
  TrainingCases cases;
  for (const Result& result : report.results) {
    if (result.training) cases.emplace_back(training_spec(result), &result);
  }
  return cases;
}

}  // namespace zeroproof::verification
