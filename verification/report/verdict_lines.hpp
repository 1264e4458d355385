#pragma once

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// "5 pass, 1 fail": the number of results of each status.
std::string status_counts(Span<const Result> results);

/// Lines about training cases while others are still running: a line for a single case or for the
/// first few failures, and one that counts all.
std::vector<std::string> verdict_lines(Span<const Result> results);

}  // namespace zeroproof::verification
