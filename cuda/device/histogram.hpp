#pragma once

#include "common/contracts/histogram.hpp"

namespace zeroproof::cuda::device {

/// The atomics of the two leave counts that no order of threads changes.
HistogramCountFn histogram_count;
HistogramWidenFn histogram_widen;

}  // namespace zeroproof::cuda::device
