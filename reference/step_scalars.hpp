#pragma once

#include "common/contracts/step_scalars.hpp"

namespace zeroproof::reference {

StepScalarsFn step_scalars;

}  // namespace zeroproof::reference
