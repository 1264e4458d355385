#pragma once
// Runs functions of the contract that are no implementations of the product: planted faults.

#include "common/contracts/activations.hpp"
#include "common/contracts/bias_dropout.hpp"
#include "common/contracts/calibration.hpp"
#include "common/contracts/cross_entropy.hpp"
#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/histogram.hpp"
#include "common/contracts/master_split.hpp"
#include "common/contracts/norm_layers.hpp"
#include "common/contracts/softmax.hpp"
#include "common/contracts/weight_grad.hpp"
#include "verification/ops/op.hpp"

namespace zeroproof::verification {

OpFunction calls_of_swiglu(SwigluFn* implementation);
OpFunction calls_of_swiglu_backward(SwigluBackwardFn* implementation);
OpFunction calls_of_causal_softmax(CausalSoftmaxFn* implementation);
OpFunction calls_of_masked_softmax(MaskedSoftmaxFn* implementation);
OpFunction calls_of_sink_softmax_backward(SinkSoftmaxBackwardFn* implementation);
OpFunction calls_of_rms_norm(RmsNormFn* implementation);
OpFunction calls_of_cross_entropy_sum(CrossEntropySumFn* implementation);
OpFunction calls_of_cross_entropy_loss(CrossEntropyLossFn* implementation);
OpFunction calls_of_cross_entropy_backward(CrossEntropyBackwardFn* implementation);
OpFunction calls_of_bias_dropout(BiasDropoutFn* implementation);
OpFunction calls_of_weight_grad(WeightGradFn* implementation);
OpFunction calls_of_percentile_amax(PercentileAmaxFn* implementation);
OpFunction calls_of_entropy_amax(EntropyAmaxFn* implementation);
OpFunction calls_of_smooth_scales(SmoothScalesFn* implementation);
OpFunction calls_of_histogram_count(HistogramCountFn* implementation);
OpFunction calls_of_histogram_widen(HistogramWidenFn* implementation);
OpFunction calls_of_fake_quantize(FakeQuantizeFn* implementation);
OpFunction calls_of_split_master(SplitMasterFn* implementation);
OpFunction calls_of_join_master(JoinMasterFn* implementation);

}  // namespace zeroproof::verification
