#pragma once
// Functions of the contract as the harness runs a twin, for those that are no twins of the product: planted faults.

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

OpFunction calls_of_swiglu(SwigluFn* twin);
OpFunction calls_of_swiglu_backward(SwigluBackwardFn* twin);
OpFunction calls_of_causal_softmax(CausalSoftmaxFn* twin);
OpFunction calls_of_masked_softmax(MaskedSoftmaxFn* twin);
OpFunction calls_of_sink_softmax_backward(SinkSoftmaxBackwardFn* twin);
OpFunction calls_of_rms_norm(RmsNormFn* twin);
OpFunction calls_of_cross_entropy_sum(CrossEntropySumFn* twin);
OpFunction calls_of_cross_entropy_loss(CrossEntropyLossFn* twin);
OpFunction calls_of_cross_entropy_backward(CrossEntropyBackwardFn* twin);
OpFunction calls_of_bias_dropout(BiasDropoutFn* twin);
OpFunction calls_of_weight_grad(WeightGradFn* twin);
OpFunction calls_of_percentile_amax(PercentileAmaxFn* twin);
OpFunction calls_of_entropy_amax(EntropyAmaxFn* twin);
OpFunction calls_of_smooth_scales(SmoothScalesFn* twin);
OpFunction calls_of_histogram_count(HistogramCountFn* twin);
OpFunction calls_of_histogram_widen(HistogramWidenFn* twin);
OpFunction calls_of_fake_quantize(FakeQuantizeFn* twin);
OpFunction calls_of_split_master(SplitMasterFn* twin);
OpFunction calls_of_join_master(JoinMasterFn* twin);

}  // namespace zeroproof::verification
