#pragma once

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::reference {

GradNormAccumulateFn grad_norm_accumulate;
GradNormNormaliseFn grad_norm_normalise;
GradNormFinishFn grad_norm_finish;

}  // namespace zeroproof::reference
