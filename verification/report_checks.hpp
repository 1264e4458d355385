#pragma once

#include <string>
#include <vector>

#include "verification/check_result.hpp"

namespace zeroproof::verification {

/// Where a run of steps and ranks first differs, and what stands there, as indented lines.
std::string place_lines(const Divergence& divergence);

/// Appends the tables of operations, L-BFGS and controls, and what did not pass; nothing if there are none.
void add_checks(std::string& out, const std::vector<CheckResult>& checks, bool colour);

}  // namespace zeroproof::verification
