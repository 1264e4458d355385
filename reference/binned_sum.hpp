#pragma once

#include "common/contracts/binned_sum.hpp"

namespace zeroproof::reference {

BinnedDepositFn binned_deposit;
BinnedMergeFn binned_merge;
BinnedFinishFn binned_finish;

}  // namespace zeroproof::reference
