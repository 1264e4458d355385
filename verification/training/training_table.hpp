#pragma once

#include <string>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// Every row of the training cases: every step of every training, every buffer of every phase,
/// every case. "" if there are none.
std::string training_table(const RunReport& report, bool colour);

}  // namespace zeroproof::verification
