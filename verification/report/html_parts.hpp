#pragma once
// Parts of the page that are more than text.

#include <string>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// How far differing values are apart, a bar for each distance, with what each means; "" if nothing was counted.
std::string ulp_bars(const UlpHistogram& ulps);

/// Every training: its loss as a drawing, and its hash with the cases that have it; "" if there is none.
std::string trajectories(const RunReport& report);

/// What passing cases of a run with --cover visited: settings against settings, the share of the pairs of their values
/// in each cell; "" of other runs.
std::string pairs_of_settings(const RunReport& report);

/// What was visited: a table for every group, settings of a case against settings, how many cases passed in each cell.
std::string coverage(const RunReport& report);

}  // namespace zeroproof::verification
