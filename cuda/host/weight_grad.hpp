#pragma once

#include "common/contracts/weight_grad.hpp"

namespace zeroproof::cuda::host {

ColumnSumFn column_sum;
WeightGradFn weight_grad;
WeightGradBf16Fn weight_grad_bf16;

}  // namespace zeroproof::cuda::host
