#pragma once
// Planted faults chosen by number instead of by name, for exercises in finding them.

#include <string>
#include <vector>

#include "verification/cases/run_plan.hpp"
#include "verification/faults/catalogue.hpp"

namespace zeroproof::verification {

/// Faults that the fault plan finds in this case, with the settings of the options: a training case
/// may differ from the plan's case in mode and threads only. Without the faults that production
/// refuses, because their error names them. The order is fixed and reveals nothing.
std::vector<const Fault*> blind_faults(const VerifyOptions& options, const std::string& case_id);

/// The N-th fault, counted from 1, of the faults that all of these cases have. Errors
/// (ErrorCode::config): `number` is not a number or is out of range; the cases do not have the same
/// faults.
const Fault& blind_fault(const VerifyOptions& options, const std::vector<std::string>& case_ids,
                         const std::string& number);

}  // namespace zeroproof::verification
