#pragma once

#include <string>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// The results of a suite, one row per group: the number of comparisons, and whether all were
/// equal. "" if it has none. title: the side compared; column: the name of a group; truth: what it
/// is compared with, unless the report is held to something else.
std::string group_table(const RunReport& report, const std::string& suite, const std::string& title,
                        const std::string& column, bool colour,
                        const std::string& truth = "the reference");

}  // namespace zeroproof::verification
