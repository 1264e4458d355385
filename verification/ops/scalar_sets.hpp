#pragma once
// Step scalars that update rules are tried with. An update takes any values, so these need not come from a step.

#include <string>
#include <vector>

#include "common/contracts/step_scalars.hpp"

namespace zeroproof::verification {

/// Errors: none; `number` counts the names of scalar_set_names().
StepScalars scalar_set(int number);

/// "typical", "no decay, first step", ...
std::vector<std::string> scalar_set_names();

}  // namespace zeroproof::verification
