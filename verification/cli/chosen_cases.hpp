#pragma once
// From the command line to the cases it runs: the same way for every command, so that list shows what verify runs.

#include "verification/cases/suites/selection.hpp"
#include "verification/cli/case_flags.hpp"

namespace zeroproof::verification {

struct ChosenCases {
  VerifyOptions options;
  Selection selection;  ///< may be empty
};

/// Errors: ErrorCode::config for flags that cannot be used, or not together with these cases, and for more MPI ranks
/// than this machine bears; ErrorCode::unavailable if something that was asked for by name cannot run here, or nothing
/// of what was selected can.
ChosenCases choose_cases(const CaseFlags& flags);

/// True if the user asked for this case by its id or its implementation: then "skipped" is no answer.
bool asked_by_name(const CaseFlags& flags, const std::string& id);

}  // namespace zeroproof::verification
