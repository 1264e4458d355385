#pragma once

#include <string>
#include <vector>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// The loss of some trainings over their steps, two charts side by side, at most 98 columns wide.
/// The axis begins at 0; more than 32 steps share columns, each the mean of its steps. A skipped
/// step has a loss too. Trainings without losses (some recordings) are left out.
std::string loss_charts(const std::vector<TrainingTrace>& traces);

}  // namespace zeroproof::verification
