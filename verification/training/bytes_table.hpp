#pragma once

#include <string>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// What every rank of every training case held and sent, beside what was predicted. "" if no case has an account.
std::string bytes_table(const RunReport& report, bool colour);

}  // namespace zeroproof::verification
