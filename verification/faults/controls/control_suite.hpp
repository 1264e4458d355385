#pragma once

#include "verification/cases/suite.hpp"

namespace zeroproof::verification {

/// Differences the contract allows: "controls/nan-payloads".
const Suite& control_suite();

}  // namespace zeroproof::verification
