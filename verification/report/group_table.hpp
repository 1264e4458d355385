#pragma once

#include <string>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// The results of a suite, one row for each of its groups: what was compared, and whether it was equal. "" if it has
/// none. title: what is compared with the reference; column: what a group is.
std::string group_table(const RunReport& report, const std::string& suite, const std::string& title,
                        const std::string& column, bool colour);

}  // namespace zeroproof::verification
