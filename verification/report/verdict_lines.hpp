#pragma once

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// What is told of training cases while others are still running: a line for one case alone, or for the first few that
/// failed, and one that counts all.
std::vector<std::string> verdict_lines(Span<const Result> results);

}  // namespace zeroproof::verification
