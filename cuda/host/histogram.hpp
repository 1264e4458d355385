#pragma once

#include "common/contracts/histogram.hpp"

namespace zeroproof::cuda::host {

HistogramCountFn histogram_count;
HistogramWidenFn histogram_widen;
HistogramExponentFn histogram_exponent;

}  // namespace zeroproof::cuda::host
