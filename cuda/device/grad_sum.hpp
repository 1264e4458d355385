#pragma once

#include "common/contracts/grad_sum.hpp"

namespace zeroproof::cuda::device {

AddNodesFn add_nodes;

}  // namespace zeroproof::cuda::device
