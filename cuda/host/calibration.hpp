#pragma once

#include "common/contracts/calibration.hpp"

namespace zeroproof::cuda::host {

PercentileAmaxFn percentile_amax;
EntropyAmaxFn entropy_amax;
ClipErrorsFn clip_errors;
ClipOfErrorsFn clip_of_errors;
SmoothScalesFn smooth_scales;

}  // namespace zeroproof::cuda::host
