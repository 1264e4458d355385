#pragma once

#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda::host {

StepScalarsFn step_scalars;

}  // namespace zeroproof::cuda::host
