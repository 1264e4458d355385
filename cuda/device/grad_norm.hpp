#pragma once

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::cuda::device {

GradNormAccumulateFn grad_norm_accumulate;
GradNormExactAccumulateFn grad_norm_exact_accumulate;
GradAbsAccumulateFn grad_abs_accumulate;
GradMaxAccumulateFn grad_max_accumulate;
GradNormPFn grad_norm_p;
GradNormNormaliseFn grad_norm_normalise;
GradNormFinishFn grad_norm_finish;
GradAbsFinishFn grad_abs_finish;
GradMaxFinishFn grad_max_finish;

}  // namespace zeroproof::cuda::device
