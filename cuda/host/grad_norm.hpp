#pragma once

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::cuda::host {

GradNormAccumulateFn grad_norm_accumulate;
GradNormNormaliseFn grad_norm_normalise;
GradNormFinishFn grad_norm_finish;

}  // namespace zeroproof::cuda::host
