#pragma once
// Output files of reports.

#include <optional>
#include <string>
#include <vector>

#include "verification/cases/run_report.hpp"

namespace zeroproof::verification {

struct ReportTargets {
  bool text = false;
  std::vector<std::string> json_files, junit_files, html_files;
  /// Annotations of GitHub: the source they are shown at, "" for the default of the command.
  std::optional<std::string> github;

  std::vector<std::string> files() const;
};

/// "text,github,json:FILE,junit:FILE,html:FILE". Errors (ErrorCode::config): another word; the
/// source of github:FILE does not exist.
ReportTargets parse_targets(const std::vector<std::string>& values);

/// Checks before a long run that a report file can be created in its folder, or in the nearest
/// existing one, and decides whether it is written in place: a device, a pipe or an open descriptor
/// is. Errors: ErrorCode::config.
void check_report_file(const std::string& file);

/// Checks that an input file is not overwritten. Empty names are ignored. Errors
/// (ErrorCode::config): `output` is one of `inputs`, under any name.
void check_not_input(const std::string& output, const std::vector<std::string>& inputs);

/// As check_report_file, for the folder of bundles.
void check_bundle_folder(const std::string& folder);

/// Creates missing folders. The file is replaced completely or not at all
/// (common/io/files/replacing_file.hpp), unless it is written in place. A device or pipe that is
/// new since check_report_file is replaced too. Errors (ErrorCode::io): it could not be written.
void write_report_file(const std::string& file, const std::string& content);

}  // namespace zeroproof::verification
