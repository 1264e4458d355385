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
      parts;  ///< a suite and its ids; no part is empty

  std::size_t size() const;
  std::vector<std::string> ids() const;
};

/// The suite of a pattern: the one whose means() returns true, else the first one. There must be at
/// least one.
const Suite& suite_meant(const std::string& pattern, const Suites& suites = all_suites());

/// The cases of the patterns, each once; without a pattern, the default cases of every suite.
Selection select_cases(const VerifyOptions& options, const Suites& suites = all_suites());

/// Runs the selection and returns its report. Errors: ErrorCode::config for settings or a text that
/// cannot be used, before anything runs.
RunReport run_selection(const VerifyOptions& options, const Selection& selection,
                        const ProgressSink& progress);

}  // namespace zeroproof::verification
