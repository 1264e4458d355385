#pragma once

#include <string>
#include <vector>

#include "verification/cli/case_flags.hpp"

namespace zeroproof::verification {

/// Ids of the rows that --cover, --cover-seed and --slice choose for a workload (the only pattern, or byte_gpt_tiny).
/// Errors (ErrorCode::config): a value that cannot be used, another pattern.
std::vector<std::string> covering_rows(const CaseFlags& flags, const VerifyOptions& options);

}  // namespace zeroproof::verification
