#pragma once

#include "verification/cases/run_report.hpp"
#include "verification/report/report_files.hpp"

namespace zeroproof::verification {

/// Writes the text, every file of a report, and the annotations of GitHub, at `source` unless
/// the target names a file. A report that cannot be written does not prevent the others. Errors
/// (io): the first of these failures.
void write_reports(const RunReport& report, const ReportTargets& targets, const TextStyle& style,
                   bool strict, const std::string& source = "");

}  // namespace zeroproof::verification
