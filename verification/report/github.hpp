#pragma once
// GitHub Actions: annotations, which are workflow commands on standard output, and the job summary,
// a Markdown file named by GITHUB_STEP_SUMMARY.

#include <cstdint>
#include <string>
#include <vector>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

/// The source that an annotation is shown at; without a file it is shown at the job alone.
struct SourcePlace {
  std::string file;       ///< from the current folder
  std::int64_t line = 0;  ///< 0 if unknown
};

/// One annotation, with a line break at the end. level: "error", "warning". The file is written
/// relative to GITHUB_WORKSPACE, as GitHub expects it.
std::string github_command(const std::string& level, const SourcePlace& place,
                           const std::string& title, const std::string& message);

/// An annotation for each of the first causes of failures (GitHub shows ten of a step), with the
/// first element beyond its bound; one for all mistrusted cases. With strict these are errors.
std::string to_github(const RunReport& report, bool strict, const SourcePlace& place);

/// A row of the job summary.
struct SummaryRow {
  std::string verdict, name, text;
  std::string details;  ///< several lines, folded below the table; "" for none
};

/// The rows of a report, failures first.
std::vector<SummaryRow> summary_rows(const RunReport& report, bool strict);

/// A title, a table and the details as Markdown, at most `most` bytes: rows that do not fit are
/// counted.
std::string job_summary(const std::string& title, const std::vector<SummaryRow>& rows,
                        std::size_t most);

/// Appends to GITHUB_STEP_SUMMARY, if it is set, within GitHub's limit of 1 MiB. Returns why
/// nothing was written, as a sentence, or "": a missing summary changes no verdict.
std::string append_job_summary(const std::string& title, const std::vector<SummaryRow>& rows);

/// append_job_summary(), with the sentence on standard error.
void write_job_summary(const std::string& title, const std::vector<SummaryRow>& rows);

/// Prints the annotations of a report, and appends it to the job summary.
void write_github(const RunReport& report, bool strict, const SourcePlace& place);

}  // namespace zeroproof::verification
