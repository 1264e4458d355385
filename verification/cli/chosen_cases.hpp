#pragma once
// From the command line to the cases of a run: shared by all commands, so that list prints the
// cases that verify runs.

#include "verification/cases/suites/selection.hpp"
#include "verification/cli/case_flags.hpp"

namespace zeroproof::verification {

struct ChosenCases {
  VerifyOptions options;
  Selection selection;  ///< with an unmatched pattern, no command runs it, and it is not checked
};

/// Errors: ErrorCode::config for flags that are invalid, alone or with these cases, and for more
/// MPI ranks than this machine can run; ErrorCode::unavailable if a case requested by name cannot
/// run here, or none of the selected cases can.
ChosenCases choose_cases(const CaseFlags& flags);

/// True if the user requested this case by its id or its implementation: then it must not be
/// skipped.
bool asked_by_name(const CaseFlags& flags, const std::string& id);

}  // namespace zeroproof::verification
