#pragma once

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::cuda::device {

GradNormAccumulateFn grad_norm_accumulate;

}  // namespace zeroproof::cuda::device
