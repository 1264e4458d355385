#pragma once

#include "common/contracts/sgd.hpp"

namespace zeroproof::cuda::host {

SgdUpdateFn sgd_update;
SgdEmaUpdateFn sgd_ema_update;

}  // namespace zeroproof::cuda::host
