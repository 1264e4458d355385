#pragma once

#include "common/contracts/step_scalars.hpp"

namespace zeroproof::cuda::device {

StepScalarsFn step_scalars;

}  // namespace zeroproof::cuda::device
