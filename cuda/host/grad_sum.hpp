#pragma once

#include "common/contracts/grad_sum.hpp"

namespace zeroproof::cuda::host {

AddNodesFn add_nodes;
MaximalNodesFn maximal_nodes;
GradSumFn grad_sum;

}  // namespace zeroproof::cuda::host
