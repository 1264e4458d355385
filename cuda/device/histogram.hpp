#pragma once

#include "common/contracts/histogram.hpp"

namespace zeroproof::cuda::device {

/// The atomics of counting leave counts that no order of threads changes.
HistogramCountFn histogram_count;
HistogramWidenFn histogram_widen;
HistogramExponentFn histogram_exponent;

}  // namespace zeroproof::cuda::device
