#pragma once
// Which flags mean something to which cases: one that would silently do nothing is an error.

#include "verification/cli/case_flags.hpp"

namespace zeroproof::verification {

/// True if a pattern selects training cases, not operations, L-BFGS or controls.
bool selects_training(const std::string& pattern);

/// Errors (ErrorCode::config): a flag does not apply to the cases that a pattern selects; names
/// both.
void require_applicable(const CaseFlags& flags);

}  // namespace zeroproof::verification
