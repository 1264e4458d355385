#pragma once

#include "common/contracts/loss_scaler.hpp"

namespace zeroproof::cuda::device {

LossScalerUpdateFn loss_scaler_update;

}  // namespace zeroproof::cuda::device
