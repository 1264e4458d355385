#pragma once

#include "common/contracts/calibration.hpp"

namespace zeroproof::cuda::device {

/// Counts, amax, errors and scales are in device memory; what an operation returns is the host's.
PercentileAmaxFn percentile_amax;
EntropyAmaxFn entropy_amax;
ClipErrorsFn clip_errors;
ClipOfErrorsFn clip_of_errors;
SmoothScalesFn smooth_scales;

}  // namespace zeroproof::cuda::device
