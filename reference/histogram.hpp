#pragma once

#include "common/contracts/histogram.hpp"

namespace zeroproof::reference {

HistogramCountFn histogram_count;
HistogramWidenFn histogram_widen;
HistogramExponentFn histogram_exponent;

}  // namespace zeroproof::reference
