#pragma once
// Selection of cases by a command line, and running it.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

using Suites = std::vector<const Suite*>;

/// Every suite of this program, in the order of reports.
const Suites& all_suites();

struct Selection {
  std::vector<std::pair<const Suite*, std::vector<std::string>>>
      parts;                           ///< a suite and its ids; no part is empty
  std::vector<std::string> unmatched;  ///< patterns that select no case

  std::size_t size() const;
  std::vector<std::string> ids() const;
};

/// The suite of a pattern: the one whose means() returns true, else the first one. There must be at
/// least one.
const Suite& suite_meant(const std::string& pattern, const Suites& suites = all_suites());

/// The cases of the patterns, each once; without a pattern, the default cases of every suite.
Selection select_cases(const VerifyOptions& options, const Suites& suites = all_suites());

/// The complete id that begins with the parts of an unmatched pattern and ends as the first case of
/// its suite does; "" if there is no such case.
std::string completed_id(const VerifyOptions& options, const std::string& pattern,
                         const Suites& suites = all_suites());

/// Checks all settings and inputs of the selected cases. Errors: ErrorCode::config if one cannot be
/// used.
void check_selection(const VerifyOptions& options, const Selection& selection);

/// Runs the selection and returns its report. Errors: those of check_selection(), before anything
/// runs.
RunReport run_selection(const VerifyOptions& options, const Selection& selection,
                        const ProgressSink& progress);

}  // namespace zeroproof::verification
