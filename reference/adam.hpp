#pragma once

#include "common/contracts/adam.hpp"

namespace zeroproof::reference {

AdamwUpdateFn adamw_update;
AdamUpdateFn adam_update;

}  // namespace zeroproof::reference
