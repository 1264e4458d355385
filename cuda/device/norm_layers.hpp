#pragma once

#include "common/contracts/norm_layers.hpp"

namespace zeroproof::cuda::device {

RmsNormFn rms_norm;
RmsNormBackwardFn rms_norm_backward;
LayerNormFn layer_norm;
LayerNormBackwardFn layer_norm_backward;

}  // namespace zeroproof::cuda::device
