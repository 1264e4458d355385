#pragma once

#include "common/contracts/bias_dropout.hpp"

namespace zeroproof::cuda::device {

BiasDropoutFn bias_dropout;
BiasDropoutBackwardFn bias_dropout_backward;

}  // namespace zeroproof::cuda::device
