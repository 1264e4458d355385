#pragma once

#include "common/contracts/activations.hpp"

namespace zeroproof::cuda::device {

BiasGeluFn bias_gelu;
BiasGeluBackwardFn bias_gelu_backward;
GegluFn geglu;
GegluBackwardFn geglu_backward;
QuickGegluFn quick_geglu;
QuickGegluBackwardFn quick_geglu_backward;
SwigluFn swiglu;
SwigluBackwardFn swiglu_backward;
SquaredReluFn squared_relu;
SquaredReluBackwardFn squared_relu_backward;

}  // namespace zeroproof::cuda::device
