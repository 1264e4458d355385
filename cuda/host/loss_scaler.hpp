#pragma once

#include "common/contracts/loss_scaler.hpp"

namespace zeroproof::cuda::host {

LossScalerInitFn loss_scaler_init;
LossScalerUpdateFn loss_scaler_update;

}  // namespace zeroproof::cuda::host
