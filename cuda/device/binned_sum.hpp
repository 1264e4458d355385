#pragma once

#include "common/contracts/binned_sum.hpp"

namespace zeroproof::cuda::device {

BinnedDepositFn binned_deposit;
BinnedMergeFn binned_merge;
BinnedFinishFn binned_finish;

}  // namespace zeroproof::cuda::device
