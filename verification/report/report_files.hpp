#pragma once
// Where reports go.

#include <string>
#include <vector>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

struct ReportTargets {
  bool text = false;
  std::vector<std::string> json_files, junit_files, html_files;

  std::vector<std::string> files() const;
};

/// "text,json:FILE,junit:FILE,html:FILE". Errors (ErrorCode::config): another word.
ReportTargets parse_targets(const std::vector<std::string>& values);

/// Fails before hours of work rather than after: a file must be possible in the folder of a report, or in the one where
/// it would be made. Errors: ErrorCode::config.
void check_report_file(const std::string& file);

/// A file that is read must not be written too. Names that are empty do not count.
/// Errors (ErrorCode::config): `output` is one of `inputs`, under whatever name.
void check_not_input(const std::string& output, const std::vector<std::string>& inputs);

/// As check_report_file, for a folder that bundles go to.
void check_bundle_folder(const std::string& folder);

/// Creates missing folders. The file is complete or as it was before (common/io/files/replacing_file.hpp); a device or
/// a pipe is written as it is. Errors (ErrorCode::io): the file could not be written.
void write_report_file(const std::string& file, const std::string& content);

}  // namespace zeroproof::verification
