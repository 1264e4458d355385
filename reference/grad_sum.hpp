#pragma once

#include "common/contracts/grad_sum.hpp"

namespace zeroproof::reference {

AddNodesFn add_nodes;
MaximalNodesFn maximal_nodes;
GradSumFn grad_sum;

}  // namespace zeroproof::reference
