#pragma once

#include "common/contracts/dot.hpp"

namespace zeroproof::cuda::host {

DotAccumulateFn dot_accumulate;
DotNormaliseFn dot_normalise;
DotFinishFn dot_finish;

}  // namespace zeroproof::cuda::host
