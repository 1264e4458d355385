#pragma once

#include "common/contracts/cross_entropy.hpp"

namespace zeroproof::cuda::host {

CrossEntropyMaxFn cross_entropy_max;
CrossEntropySumFn cross_entropy_sum;
CrossEntropyLossFn cross_entropy_loss;
CrossEntropyBackwardFn cross_entropy_backward;

}  // namespace zeroproof::cuda::host
