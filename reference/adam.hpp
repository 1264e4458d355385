#pragma once

#include "common/contracts/adam.hpp"

namespace zeroproof::reference {

AdamwUpdateFn adamw_update;

}  // namespace zeroproof::reference
