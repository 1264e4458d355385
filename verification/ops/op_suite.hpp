#pragma once

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Operations one at a time: "op/adamw_update/host/x86-64-v3/fill:ties". The name of an operation
/// selects all its cases.
const Suite& op_suite();

}  // namespace zeroproof::verification
