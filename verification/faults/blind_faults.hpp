#pragma once
// Faults for somebody who is to find out which one it is: numbers instead of names.

#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {

/// Those that the fault plan finds in this case, with the settings of the options: a training case may have another
/// mode and other threads than the plan's, anything else is the plan's own. Without those that production refuses,
/// which name themselves. In an order that says nothing and is always the same.
std::vector<const Fault*> blind_faults(const VerifyOptions& options, const std::string& case_id);

/// The N-th one, counted from 1, of the faults that all of these cases have. Errors (ErrorCode::config): a number that
/// is none, or that they do not have; cases whose faults are not the same.
const Fault& blind_fault(const VerifyOptions& options, const std::vector<std::string>& case_ids,
                         const std::string& number);

}  // namespace zeroproof::verification
