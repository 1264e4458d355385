#pragma once

#include "common/contracts/adam.hpp"

namespace zeroproof::cuda::host {

AdamwUpdateFn adamw_update;
AdamUpdateFn adam_update;

}  // namespace zeroproof::cuda::host
