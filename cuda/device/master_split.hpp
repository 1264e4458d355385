#pragma once

#include "common/contracts/master_split.hpp"

namespace zeroproof::cuda::device {

SplitMasterFn split_master;
JoinMasterFn join_master;

}  // namespace zeroproof::cuda::device
