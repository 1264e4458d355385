#pragma once

#include "common/contracts/scale_recipe.hpp"

namespace zeroproof::cuda::device {

CurrentScalesFn current_scales;
Mxfp8ScalesFn mxfp8_scales;
DelayedScalesFn delayed_scales;

}  // namespace zeroproof::cuda::device
