// What a program built without CUDA knows about devices: that it cannot use any.

#include "common/base/error.hpp"
#include "cuda/device/activations.hpp"
#include "cuda/device/bias_dropout.hpp"
#include "cuda/device/binned_sum.hpp"
#include "cuda/device/block_scale.hpp"
#include "cuda/device/calibration.hpp"
#include "cuda/device/cast.hpp"
#include "cuda/device/clip.hpp"
#include "cuda/device/cross_entropy.hpp"
#include "cuda/device/elementary.hpp"
#include "cuda/device/fake_quantize.hpp"
#include "cuda/device/grad_norm.hpp"
#include "cuda/device/grad_scale.hpp"
#include "cuda/device/grad_stats.hpp"
#include "cuda/device/grad_sum.hpp"
#include "cuda/device/histogram.hpp"
#include "cuda/device/loss_scaler.hpp"
#include "cuda/device/master_split.hpp"
#include "cuda/device/norm_layers.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/device/scale_recipe.hpp"
#include "cuda/device/softmax.hpp"
#include "cuda/device/step_scalars.hpp"
#include "cuda/device/weight_grad.hpp"
#include "cuda/host/update_twins.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void no_device() {
  fail(ErrorCode::unavailable, "a device twin was called", "this program has no device code",
       "build it with ZP_CUDA=ON, or use the host twins");
}

}  // namespace

const DeviceInfo& device_info() {
  static const DeviceInfo info{false, false, false, "not asked: this program has no device code"};
  return info;
}

std::vector<ListedDevice> listed_devices() { return {}; }

using In = Span<const float>;
using InOut = Span<float>;

void cast_to_bf16(const Exec&, In, Span<bf16>) { no_device(); }
void cast_to_fp16(const Exec&, In, Span<fp16>) { no_device(); }
void cast_to_e4m3(const Exec&, In, Span<e4m3>) { no_device(); }
void cast_to_e5m2(const Exec&, In, Span<e5m2>) { no_device(); }
void stochastic_cast_to_bf16(const Exec&, const RoundingDraw&, In, Span<bf16>) { no_device(); }
void nonfinite_cast_to_e4m3(const Exec&, In, Span<e4m3>) { no_device(); }
void nonfinite_cast_to_e5m2(const Exec&, In, Span<e5m2>) { no_device(); }
void cast_to_e8m0(const Exec&, In, Span<e8m0>) { no_device(); }
void widen_e8m0(const Exec&, Span<const e8m0>, InOut) { no_device(); }
void split_master(const Exec&, SplitRule, In, Span<bf16>, Span<std::uint16_t>) { no_device(); }
void join_master(const Exec&, SplitRule, Span<const bf16>, Span<const std::uint16_t>, InOut) { no_device(); }
void current_scales(const Exec&, const CurrentScaling&, Span<const std::uint32_t>, InOut, InOut) {
  no_device();
}
void mxfp8_scales(const Exec&, Fp8, Span<const std::uint32_t>, Span<e8m0>, InOut) { no_device(); }
void delayed_scales(const Exec&, const DelayedScaling&, Span<std::uint32_t>, InOut, InOut) { no_device(); }
void fake_quantize(const Exec&, const FakeQuantization&, std::int64_t, In, Span<const std::uint32_t>, InOut) {
  no_device();
}
void quantize_integer(const Exec&, const FakeQuantization&, std::int64_t, In, Span<const std::uint32_t>,
                      Span<std::int8_t>) {
  no_device();
}
void histogram_count(const Exec&, float, HistogramEnd, In, Span<std::uint64_t>) { no_device(); }
void histogram_widen(const Exec&, int, Span<std::uint64_t>) { no_device(); }
int histogram_exponent(std::uint32_t, std::int64_t) { no_device(); }
float percentile_amax(Span<const std::uint64_t>, float, double) { no_device(); }
float entropy_amax(const Exec&, Span<const std::uint64_t>, float, int) { no_device(); }
void clip_errors(const Exec&, const FakeQuantization&, std::int64_t, In, Span<const std::uint32_t>,
                 Span<NormLimbs>) {
  no_device();
}
void clip_of_errors(Span<const std::uint32_t>, Span<const NormLimbs>, Span<std::uint32_t>) { no_device(); }
void smooth_scales(const Exec&, double, Span<const std::uint32_t>, Span<const std::uint32_t>, InOut) {
  no_device();
}
void block_amax(const Exec&, const BlockGrid&, QuantizedValue, std::int64_t, In, Span<std::uint32_t>) {
  no_device();
}
void block_quantize_e4m3(const Exec&, const BlockQuantization&, std::int64_t, In, In, Span<e4m3>) {
  no_device();
}
void block_quantize_e5m2(const Exec&, const BlockQuantization&, std::int64_t, In, In, Span<e5m2>) {
  no_device();
}
void block_dequantize_e4m3(const Exec&, const BlockGrid&, std::int64_t, Span<const e4m3>, In, InOut) {
  no_device();
}
void block_dequantize_e5m2(const Exec&, const BlockGrid&, std::int64_t, Span<const e5m2>, In, InOut) {
  no_device();
}
void widen_bf16(const Exec&, Span<const bf16>, InOut) { no_device(); }
void widen_fp16(const Exec&, Span<const fp16>, InOut) { no_device(); }
void widen_e4m3(const Exec&, Span<const e4m3>, InOut) { no_device(); }
void widen_e5m2(const Exec&, Span<const e5m2>, InOut) { no_device(); }
void add_nodes(const Exec&, In, In, InOut) { no_device(); }
void binned_deposit(const Exec&, In, const BinnedSum&) { no_device(); }
void binned_merge(const Exec&, const BinnedSum&, const BinnedSum&) { no_device(); }
void binned_finish(const Exec&, const BinnedSum&, InOut) { no_device(); }
bool unscale(const Exec&, float, In, InOut) { no_device(); }
void grad_norm_accumulate(const Exec&, In, NormLimbs&) { no_device(); }
void grad_norm_exact_accumulate(const Exec&, In, NormLimbs&) { no_device(); }
void grad_abs_accumulate(const Exec&, In, NormLimbs&) { no_device(); }
void grad_max_accumulate(const Exec&, In, std::uint32_t&) { no_device(); }
double grad_norm_p(const Exec&, In, double) { no_device(); }
void grad_norm_normalise(NormLimbs&) { no_device(); }
double grad_norm_finish(const NormLimbs&) { no_device(); }
double grad_abs_finish(const NormLimbs&) { no_device(); }
double grad_max_finish(std::uint32_t) { no_device(); }
StepScalars step_scalars(const OptimizerHyper&, std::int64_t, int, std::int64_t) { no_device(); }
LossScalerState loss_scaler_update(const LossScalerConfig&, const LossScalerState&, bool) { no_device(); }
float clip_coef(double, std::optional<double>) { no_device(); }
void clip(const Exec&, float, In, InOut) { no_device(); }
void clip_value(const Exec&, float, InOut) { no_device(); }
void adamw_update(const Exec&, const AdamOptions&, const StepScalars&, In, InOut, InOut, InOut, InOut) {
  no_device();
}
void adam_update(const Exec&, const AdamOptions&, const StepScalars&, In, InOut, InOut, InOut, InOut) {
  no_device();
}
void sgd_update(const Exec&, const SgdOptions&, const StepScalars&, In, InOut, InOut) { no_device(); }
void sgd_ema_update(const Exec&, const SgdEmaOptions&, const StepScalars&, In, InOut, InOut) { no_device(); }
void lion_update(const Exec&, const LionOptions&, const StepScalars&, In, InOut, InOut) { no_device(); }
void elementary_exp(const Exec&, In, InOut) { no_device(); }
void elementary_tanh(const Exec&, In, InOut) { no_device(); }
void elementary_sigmoid(const Exec&, In, InOut) { no_device(); }
void elementary_erf(const Exec&, In, InOut) { no_device(); }
void elementary_log(const Exec&, In, InOut) { no_device(); }
void bias_gelu(const Exec&, std::int64_t, In, In, InOut) { no_device(); }
void bias_gelu_backward(const Exec&, std::int64_t, In, In, In, InOut) { no_device(); }
void geglu(const Exec&, std::int64_t, In, In, InOut) { no_device(); }
void geglu_backward(const Exec&, std::int64_t, In, In, In, InOut) { no_device(); }
void quick_geglu(const Exec&, std::int64_t, float, In, In, In, InOut) { no_device(); }
void quick_geglu_backward(const Exec&, std::int64_t, float, In, In, In, In, InOut, InOut) { no_device(); }
void swiglu(const Exec&, std::int64_t, float, In, In, In, InOut) { no_device(); }
void swiglu_backward(const Exec&, std::int64_t, float, In, In, In, In, InOut, InOut) { no_device(); }
void squared_relu(const Exec&, std::int64_t, In, In, InOut) { no_device(); }
void squared_relu_backward(const Exec&, std::int64_t, In, In, In, InOut, InOut) { no_device(); }
void grad_stats(const Exec&, In, Span<const GradSegment>, Span<GradStats>) { no_device(); }
DeviceSegments::DeviceSegments(Span<const GradSegment>) { no_device(); }
void enqueue_grad_stats(const float*, const DeviceSegments&, GradStats*) { no_device(); }
void causal_softmax(const Exec&, std::int64_t, float, In, InOut) { no_device(); }
void causal_softmax_backward(const Exec&, std::int64_t, float, In, In, InOut) { no_device(); }
void masked_softmax(const Exec&, std::int64_t, float, In, Span<const std::uint8_t>, InOut) { no_device(); }
void masked_softmax_backward(const Exec&, std::int64_t, float, In, In, Span<const std::uint8_t>, InOut) {
  no_device();
}
void sink_softmax(const Exec&, std::int64_t, std::int64_t, float, In, In, InOut, InOut) { no_device(); }
void sink_softmax_backward(const Exec&, std::int64_t, std::int64_t, float, In, In, In, InOut, InOut) {
  no_device();
}
void cross_entropy_max(const Exec&, const VocabularyPart&, In, Span<std::uint32_t>) { no_device(); }
void cross_entropy_sum(const Exec&, const VocabularyPart&, In, Span<const std::uint32_t>,
                       Span<const std::int32_t>, InOut, InOut, Span<std::uint32_t>) {
  no_device();
}
void cross_entropy_loss(const Exec&, const CrossEntropyOptions&, std::int64_t, int, Span<const std::uint32_t>,
                        Span<const std::int32_t>, In, In, Span<const std::uint32_t>, InOut, InOut, InOut) {
  no_device();
}
void cross_entropy_backward(const Exec&, const VocabularyPart&, const CrossEntropyOptions&, In, In,
                            Span<const std::uint32_t>, Span<const std::int32_t>, In, In, InOut) {
  no_device();
}
void rms_norm(const Exec&, std::int64_t, float, In, In, InOut, InOut) { no_device(); }
void rms_norm_backward(const Exec&, std::int64_t, In, In, In, In, InOut, InOut) { no_device(); }
void layer_norm(const Exec&, std::int64_t, float, In, In, In, InOut, InOut, InOut) { no_device(); }
void layer_norm_backward(const Exec&, std::int64_t, In, In, In, In, In, InOut, InOut, InOut) { no_device(); }
void bias_dropout(const Exec&, const DropoutDraw&, std::int64_t, double, In, In, In, InOut) { no_device(); }
void bias_dropout_backward(const Exec&, const DropoutDraw&, double, In, InOut) { no_device(); }
void column_sum(const Exec&, In, InOut) { no_device(); }
void weight_grad(const Exec&, std::int64_t, std::int64_t, std::int64_t, In, In, InOut) { no_device(); }
void weight_grad_bf16(const Exec&, std::int64_t, std::int64_t, std::int64_t, Span<const bf16>,
                      Span<const bf16>, InOut) {
  no_device();
}

}  // namespace zeroproof::cuda::device
