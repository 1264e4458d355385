#pragma once

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::cuda::host {

GradNormAccumulateFn grad_norm_accumulate;
GradNormNormaliseFn grad_norm_normalise;
GradNormFinishFn grad_norm_finish;
GradNormExactAccumulateFn grad_norm_exact_accumulate;
GradAbsAccumulateFn grad_abs_accumulate;
GradAbsFinishFn grad_abs_finish;
GradMaxAccumulateFn grad_max_accumulate;
GradMaxFinishFn grad_max_finish;
GradNormPFn grad_norm_p;

}  // namespace zeroproof::cuda::host
