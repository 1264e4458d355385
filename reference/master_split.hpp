#pragma once

#include "common/contracts/master_split.hpp"

namespace zeroproof::reference {

SplitMasterFn split_master;
JoinMasterFn join_master;

}  // namespace zeroproof::reference
