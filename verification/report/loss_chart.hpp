#pragma once

#include <string>
#include <vector>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// The loss of some trainings over their steps, two charts side by side, at most 98 columns wide. The axis begins at 0,
/// so a column is as high as its loss; more than 32 steps share columns, each the mean of its steps. A step that was
/// skipped has a loss like any other. Trainings without losses (recordings need not have them) are left out.
std::string loss_charts(const std::vector<TrainingTrace>& traces);

}  // namespace zeroproof::verification
