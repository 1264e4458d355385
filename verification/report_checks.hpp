#pragma once

#include <string>
#include <vector>

#include "verification/check_result.hpp"

namespace zeroproof::verification {

/// Appends the tables of operations and controls, and what did not pass; nothing if there are none.
void add_checks(std::string& out, const std::vector<CheckResult>& checks, bool colour);

}  // namespace zeroproof::verification
