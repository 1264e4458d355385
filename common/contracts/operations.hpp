#pragma once
// All operations of the contracts as lists of X(name, type). Every implementation declares its functions from these
// lists (operations.hpp in reference/, cuda/host/ and cuda/device/); a build without nvcc makes its stubs from them.

#include "common/contracts/activations.hpp"
#include "common/contracts/adam.hpp"
#include "common/contracts/bias_dropout.hpp"
#include "common/contracts/binned_sum.hpp"
#include "common/contracts/block_scale.hpp"
#include "common/contracts/calibration.hpp"
#include "common/contracts/cast.hpp"
#include "common/contracts/clip.hpp"
#include "common/contracts/cross_entropy.hpp"
#include "common/contracts/dot.hpp"
#include "common/contracts/elementary.hpp"
#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/grad_norm.hpp"
#include "common/contracts/grad_scale.hpp"
#include "common/contracts/grad_stats.hpp"
#include "common/contracts/grad_sum.hpp"
#include "common/contracts/histogram.hpp"
#include "common/contracts/lamb.hpp"
#include "common/contracts/lion.hpp"
#include "common/contracts/loss_scaler.hpp"
#include "common/contracts/master_split.hpp"
#include "common/contracts/matrix_product.hpp"
#include "common/contracts/muon.hpp"
#include "common/contracts/newton_schulz.hpp"
#include "common/contracts/norm_layers.hpp"
#include "common/contracts/scale_recipe.hpp"
#include "common/contracts/sgd.hpp"
#include "common/contracts/softmax.hpp"
#include "common/contracts/step_scalars.hpp"
#include "common/contracts/weight_grad.hpp"

/// Operations of the reference, the host and the device.
#define ZP_OPERATIONS(X)                                   \
  /* activations.hpp */                                    \
  X(bias_gelu, BiasGeluFn)                                 \
  X(bias_gelu_backward, BiasGeluBackwardFn)                \
  X(geglu, GegluFn)                                        \
  X(geglu_backward, GegluBackwardFn)                       \
  X(quick_geglu, QuickGegluFn)                             \
  X(quick_geglu_backward, QuickGegluBackwardFn)            \
  X(swiglu, SwigluFn)                                      \
  X(swiglu_backward, SwigluBackwardFn)                     \
  X(squared_relu, SquaredReluFn)                           \
  X(squared_relu_backward, SquaredReluBackwardFn)          \
  /* adam.hpp */                                           \
  X(adamw_update, AdamwUpdateFn)                           \
  X(adam_update, AdamUpdateFn)                             \
  /* bias_dropout.hpp */                                   \
  X(bias_dropout, BiasDropoutFn)                           \
  X(bias_dropout_backward, BiasDropoutBackwardFn)          \
  /* binned_sum.hpp */                                     \
  X(binned_deposit, BinnedDepositFn)                       \
  X(binned_merge, BinnedMergeFn)                           \
  X(binned_finish, BinnedFinishFn)                         \
  /* block_scale.hpp */                                    \
  X(block_amax, BlockAmaxFn)                               \
  X(block_quantize_e4m3, BlockQuantizeE4m3Fn)              \
  X(block_quantize_e5m2, BlockQuantizeE5m2Fn)              \
  X(block_dequantize_e4m3, BlockDequantizeE4m3Fn)          \
  X(block_dequantize_e5m2, BlockDequantizeE5m2Fn)          \
  /* calibration.hpp */                                    \
  X(percentile_amax, PercentileAmaxFn)                     \
  X(entropy_amax, EntropyAmaxFn)                           \
  X(clip_errors, ClipErrorsFn)                             \
  X(clip_of_errors, ClipOfErrorsFn)                        \
  X(smooth_scales, SmoothScalesFn)                         \
  /* cast.hpp */                                           \
  X(cast_to_bf16, CastToBf16Fn)                            \
  X(cast_to_fp16, CastToFp16Fn)                            \
  X(cast_to_e4m3, CastToE4m3Fn)                            \
  X(cast_to_e5m2, CastToE5m2Fn)                            \
  X(nonfinite_cast_to_e4m3, NonfiniteCastToE4m3Fn)         \
  X(nonfinite_cast_to_e5m2, NonfiniteCastToE5m2Fn)         \
  X(cast_to_e8m0, CastToE8m0Fn)                            \
  X(widen_e8m0, WidenE8m0Fn)                               \
  X(widen_bf16, WidenBf16Fn)                               \
  X(widen_fp16, WidenFp16Fn)                               \
  X(widen_e4m3, WidenE4m3Fn)                               \
  X(widen_e5m2, WidenE5m2Fn)                               \
  X(stochastic_cast_to_bf16, StochasticCastToBf16Fn)       \
  /* clip.hpp */                                           \
  X(clip_coef, ClipCoefFn)                                 \
  X(clip, ClipFn)                                          \
  X(clip_value, ClipValueFn)                               \
  /* cross_entropy.hpp */                                  \
  X(cross_entropy_max, CrossEntropyMaxFn)                  \
  X(cross_entropy_sum, CrossEntropySumFn)                  \
  X(cross_entropy_loss, CrossEntropyLossFn)                \
  X(cross_entropy_backward, CrossEntropyBackwardFn)        \
  /* elementary.hpp */                                     \
  X(elementary_exp, ElementaryExpFn)                       \
  X(elementary_tanh, ElementaryTanhFn)                     \
  X(elementary_sigmoid, ElementarySigmoidFn)               \
  X(elementary_erf, ElementaryErfFn)                       \
  X(elementary_log, ElementaryLogFn)                       \
  /* fake_quantize.hpp */                                  \
  X(fake_quantize, FakeQuantizeFn)                         \
  X(quantize_integer, QuantizeIntegerFn)                   \
  /* grad_norm.hpp */                                      \
  X(grad_norm_accumulate, GradNormAccumulateFn)            \
  X(grad_norm_exact_accumulate, GradNormExactAccumulateFn) \
  X(grad_abs_accumulate, GradAbsAccumulateFn)              \
  X(grad_max_accumulate, GradMaxAccumulateFn)              \
  X(grad_norm_normalise, GradNormNormaliseFn)              \
  X(grad_norm_finish, GradNormFinishFn)                    \
  X(grad_abs_finish, GradAbsFinishFn)                      \
  X(grad_max_finish, GradMaxFinishFn)                      \
  X(grad_norm_p, GradNormPFn)                              \
  /* grad_scale.hpp */                                     \
  X(unscale, UnscaleFn)                                    \
  /* grad_stats.hpp */                                     \
  X(grad_stats, GradStatsFn)                               \
  /* grad_sum.hpp */                                       \
  X(add_nodes, AddNodesFn)                                 \
  /* histogram.hpp */                                      \
  X(histogram_count, HistogramCountFn)                     \
  X(histogram_widen, HistogramWidenFn)                     \
  X(histogram_exponent, HistogramExponentFn)               \
  /* lamb.hpp */                                           \
  X(lamb_norms, LambNormsFn)                               \
  X(lamb_trust_ratio, LambTrustRatioFn)                    \
  X(lamb_update, LambUpdateFn)                             \
  /* lion.hpp */                                           \
  X(lion_update, LionUpdateFn)                             \
  /* loss_scaler.hpp */                                    \
  X(loss_scaler_update, LossScalerUpdateFn)                \
  /* master_split.hpp */                                   \
  X(split_master, SplitMasterFn)                           \
  X(join_master, JoinMasterFn)                             \
  /* matrix_product.hpp */                                 \
  X(matrix_product, MatrixProductFn)                       \
  /* muon.hpp */                                           \
  X(muon_momentum, MuonMomentumFn)                         \
  X(muon_step_size, MuonStepSizeFn)                        \
  X(muon_update, MuonUpdateFn)                             \
  /* newton_schulz.hpp */                                  \
  X(newton_schulz, NewtonSchulzFn)                         \
  /* norm_layers.hpp */                                    \
  X(rms_norm, RmsNormFn)                                   \
  X(rms_norm_backward, RmsNormBackwardFn)                  \
  X(layer_norm, LayerNormFn)                               \
  X(layer_norm_backward, LayerNormBackwardFn)              \
  /* scale_recipe.hpp */                                   \
  X(current_scales, CurrentScalesFn)                       \
  X(mxfp8_scales, Mxfp8ScalesFn)                           \
  X(delayed_scales, DelayedScalesFn)                       \
  /* sgd.hpp */                                            \
  X(sgd_update, SgdUpdateFn)                               \
  X(sgd_ema_update, SgdEmaUpdateFn)                        \
  /* softmax.hpp */                                        \
  X(causal_softmax, CausalSoftmaxFn)                       \
  X(causal_softmax_backward, CausalSoftmaxBackwardFn)      \
  X(masked_softmax, MaskedSoftmaxFn)                       \
  X(masked_softmax_backward, MaskedSoftmaxBackwardFn)      \
  X(sink_softmax, SinkSoftmaxFn)                           \
  X(sink_softmax_backward, SinkSoftmaxBackwardFn)          \
  /* step_scalars.hpp */                                   \
  X(step_scalars, StepScalarsFn)                           \
  /* weight_grad.hpp */                                    \
  X(column_sum, ColumnSumFn)                               \
  X(weight_grad, WeightGradFn)                             \
  X(weight_grad_bf16, WeightGradBf16Fn)

/// Operations of the reference and the host only: on a device they are part of other operations.
#define ZP_HOST_OPERATIONS(X)             \
  /* adam.hpp */                          \
  X(adamw_update_bf16, AdamwUpdateBf16Fn) \
  X(adam_update_bf16, AdamUpdateBf16Fn)   \
  /* dot.hpp */                           \
  X(dot_accumulate, DotAccumulateFn)      \
  X(dot_normalise, DotNormaliseFn)        \
  X(dot_finish, DotFinishFn)              \
  /* grad_sum.hpp */                      \
  X(maximal_nodes, MaximalNodesFn)        \
  X(grad_sum, GradSumFn)                  \
  /* lion.hpp */                          \
  X(lion_update_bf16, LionUpdateBf16Fn)   \
  /* loss_scaler.hpp */                   \
  X(loss_scaler_init, LossScalerInitFn)   \
  /* sgd.hpp */                           \
  X(sgd_update_bf16, SgdUpdateBf16Fn)
