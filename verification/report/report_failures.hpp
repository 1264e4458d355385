#pragma once

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// The details of a result as indented lines: reason or position, values, extent, replay.
/// `before_replay` are lines to insert before the last one.
std::string details_of(const Result& result, const std::string& before_replay = "");

/// The first eight causes of failures, each with its position and repetitions, and one block for
/// each reason to skip or to mistrust.
std::string failures_text(const std::vector<Result>& results, bool colour);

}  // namespace zeroproof::verification
