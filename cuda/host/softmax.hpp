#pragma once

#include "common/contracts/softmax.hpp"

namespace zeroproof::cuda::host {

CausalSoftmaxFn causal_softmax;
CausalSoftmaxBackwardFn causal_softmax_backward;
MaskedSoftmaxFn masked_softmax;
MaskedSoftmaxBackwardFn masked_softmax_backward;
SinkSoftmaxFn sink_softmax;
SinkSoftmaxBackwardFn sink_softmax_backward;

}  // namespace zeroproof::cuda::host
