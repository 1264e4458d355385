#pragma once

#include <string>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// The verdict of the training cases of a report on one screen: a sentence, the loss, a line for
/// each phase, the trajectories. "" if it has none.
std::string training_screen(const RunReport& report, bool colour);

}  // namespace zeroproof::verification
