#pragma once

#include "common/contracts/scale_recipe.hpp"

namespace zeroproof::reference {

CurrentScalesFn current_scales;
Mxfp8ScalesFn mxfp8_scales;
DelayedScalesFn delayed_scales;

}  // namespace zeroproof::reference
