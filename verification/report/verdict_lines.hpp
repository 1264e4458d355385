#pragma once

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// Lines about training cases while others are still running: a line for a single case or for the
/// first few failures, and one that counts all.
std::vector<std::string> verdict_lines(Span<const Result> results);

}  // namespace zeroproof::verification
