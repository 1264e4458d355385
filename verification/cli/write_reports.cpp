#include "verification/cli/write_reports.hpp"

#include <cstdio>
#include <optional>

#include "common/base/error.hpp"
#include "common/base/printable.hpp"
#include "verification/report/github.hpp"

namespace zeroproof::verification {

void write_reports(const RunReport& report, const ReportTargets& targets, const TextStyle& style,
                   bool strict, const std::string& source) {
  std::optional<Error> problem;
  std::vector<std::string> written;
  const auto write = [&](const std::vector<std::string>& files, const std::string& content) {
    for (const std::string& file : files) {
      try {
        write_report_file(file, content);
        written.push_back(file);
      } catch (const Error& error) {
        if (!problem) problem = error;
      }
    }
  };
  if (targets.text) {  // first: judged code may have made the files unusable
    std::fputs(to_text(report, style).c_str(), stdout);
    std::fflush(stdout);
  }
  if (!targets.json_files.empty()) write(targets.json_files, to_json(report));
  if (!targets.junit_files.empty()) write(targets.junit_files, to_junit(report, strict));
  if (!targets.html_files.empty()) write(targets.html_files, to_html(report, strict));
  if (targets.text) {
    for (const std::string& file : written) std::printf("report: %s\n", printable(file).c_str());
  }
  if (targets.github)
    write_github(report, strict, {targets.github->empty() ? source : *targets.github});
  if (problem) throw Error(*problem);
}

}  // namespace zeroproof::verification
