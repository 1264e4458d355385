#pragma once

#include "common/contracts/calibration.hpp"

namespace zeroproof::reference {

PercentileAmaxFn percentile_amax;
EntropyAmaxFn entropy_amax;
ClipErrorsFn clip_errors;
ClipOfErrorsFn clip_of_errors;
SmoothScalesFn smooth_scales;

}  // namespace zeroproof::reference
