#pragma once

#include <string>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// Memory and traffic of every rank of every training case, with the predictions. "" if no case has
/// an account.
std::string bytes_table(const RunReport& report, bool colour);

}  // namespace zeroproof::verification
