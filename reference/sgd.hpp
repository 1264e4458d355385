#pragma once

#include "common/contracts/sgd.hpp"

namespace zeroproof::reference {

SgdUpdateFn sgd_update;
SgdEmaUpdateFn sgd_ema_update;

}  // namespace zeroproof::reference
