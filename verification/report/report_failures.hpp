#pragma once

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// What a result says besides its id, as indented lines: reason or place, values, extent, replay. `before_replay` are
/// lines to put before the last one.
std::string details_of(const Result& result, const std::string& before_replay = "");

/// The first eight causes of failures, each with its place and where it repeats, and one block for each reason to skip
/// or to mistrust, which comes in crowds.
std::string failures_text(const std::vector<Result>& results, bool colour);

}  // namespace zeroproof::verification
