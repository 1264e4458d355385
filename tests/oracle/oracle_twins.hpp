#pragma once
// Every implementation the oracle judges, as a table of functions: the reference, the host twins once for each
// instruction set this processor has, and the device twins where a device answers.

#include <string>
#include <vector>

#include "cuda/device/grad_stats.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_twins.hpp"
#include "reference/operations.hpp"
#include "reference/update_twins.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::oracle {

/// A null function: this implementation has no such operation.
struct Twin {
  std::string name;
  Exec exec = {};
  bool is_host = false;  ///< has the fused passes as well
  UnscaleFn* unscale = nullptr;
  ClipCoefFn* clip_coef = nullptr;
  ClipFn* clip = nullptr;
  ClipValueFn* clip_value = nullptr;
  AddNodesFn* add_nodes = nullptr;
  GradSumFn* grad_sum = nullptr;
  AdamwUpdateFn* adamw_update = nullptr;
  AdamUpdateFn* adam_update = nullptr;
  SgdUpdateFn* sgd_update = nullptr;
  SgdEmaUpdateFn* sgd_ema_update = nullptr;
  LionUpdateFn* lion_update = nullptr;
  CastToBf16Fn* cast_to_bf16 = nullptr;
  CastToFp16Fn* cast_to_fp16 = nullptr;
  CastToE4m3Fn* cast_to_e4m3 = nullptr;
  CastToE5m2Fn* cast_to_e5m2 = nullptr;
  StochasticCastToBf16Fn* stochastic_cast_to_bf16 = nullptr;
  WidenBf16Fn* widen_bf16 = nullptr;
  WidenFp16Fn* widen_fp16 = nullptr;
  WidenE4m3Fn* widen_e4m3 = nullptr;
  WidenE5m2Fn* widen_e5m2 = nullptr;
  NonfiniteCastToE4m3Fn* nonfinite_cast_to_e4m3 = nullptr;
  NonfiniteCastToE5m2Fn* nonfinite_cast_to_e5m2 = nullptr;
  CastToE8m0Fn* cast_to_e8m0 = nullptr;
  WidenE8m0Fn* widen_e8m0 = nullptr;
  SplitMasterFn* split_master = nullptr;
  JoinMasterFn* join_master = nullptr;
  BlockAmaxFn* block_amax = nullptr;
  BlockQuantizeE4m3Fn* block_quantize_e4m3 = nullptr;
  BlockQuantizeE5m2Fn* block_quantize_e5m2 = nullptr;
  BlockDequantizeE4m3Fn* block_dequantize_e4m3 = nullptr;
  BlockDequantizeE5m2Fn* block_dequantize_e5m2 = nullptr;
  CurrentScalesFn* current_scales = nullptr;
  Mxfp8ScalesFn* mxfp8_scales = nullptr;
  DelayedScalesFn* delayed_scales = nullptr;
  GradNormAccumulateFn* grad_norm_accumulate = nullptr;
  GradNormExactAccumulateFn* grad_norm_exact_accumulate = nullptr;
  GradAbsAccumulateFn* grad_abs_accumulate = nullptr;
  GradMaxAccumulateFn* grad_max_accumulate = nullptr;
  GradNormNormaliseFn* grad_norm_normalise = nullptr;
  GradNormFinishFn* grad_norm_finish = nullptr;
  GradAbsFinishFn* grad_abs_finish = nullptr;
  GradMaxFinishFn* grad_max_finish = nullptr;
  GradNormPFn* grad_norm_p = nullptr;
  GradStatsFn* grad_stats = nullptr;
  StepScalarsFn* step_scalars = nullptr;
};

// The same names in every namespace: that is what makes them twins. `called` stands around those over buffers.
#define ZP_ON_DEVICE(twin) verification::on_device<twin>
#define ZP_BUFFER_TWINS(twin, layer, called)                                     \
  (twin).unscale = called(layer::unscale);                                       \
  (twin).clip = called(layer::clip);                                             \
  (twin).clip_value = called(layer::clip_value);                                 \
  (twin).add_nodes = called(layer::add_nodes);                                   \
  (twin).adamw_update = called(layer::adamw_update);                             \
  (twin).adam_update = called(layer::adam_update);                               \
  (twin).sgd_update = called(layer::sgd_update);                                 \
  (twin).sgd_ema_update = called(layer::sgd_ema_update);                         \
  (twin).lion_update = called(layer::lion_update);                               \
  (twin).cast_to_bf16 = called(layer::cast_to_bf16);                             \
  (twin).cast_to_fp16 = called(layer::cast_to_fp16);                             \
  (twin).cast_to_e4m3 = called(layer::cast_to_e4m3);                             \
  (twin).cast_to_e5m2 = called(layer::cast_to_e5m2);                             \
  (twin).stochastic_cast_to_bf16 = called(layer::stochastic_cast_to_bf16);       \
  (twin).widen_bf16 = called(layer::widen_bf16);                                 \
  (twin).widen_fp16 = called(layer::widen_fp16);                                 \
  (twin).widen_e4m3 = called(layer::widen_e4m3);                                 \
  (twin).widen_e5m2 = called(layer::widen_e5m2);                                 \
  (twin).grad_norm_accumulate = called(layer::grad_norm_accumulate);             \
  (twin).grad_norm_exact_accumulate = called(layer::grad_norm_exact_accumulate); \
  (twin).grad_abs_accumulate = called(layer::grad_abs_accumulate);               \
  (twin).grad_max_accumulate = called(layer::grad_max_accumulate);               \
  (twin).grad_stats = called(layer::grad_stats)
#define ZP_FORMAT_TWINS(twin, layer, called)                             \
  (twin).nonfinite_cast_to_e4m3 = called(layer::nonfinite_cast_to_e4m3); \
  (twin).nonfinite_cast_to_e5m2 = called(layer::nonfinite_cast_to_e5m2); \
  (twin).cast_to_e8m0 = called(layer::cast_to_e8m0);                     \
  (twin).widen_e8m0 = called(layer::widen_e8m0);                         \
  (twin).split_master = called(layer::split_master);                     \
  (twin).join_master = called(layer::join_master);                       \
  (twin).block_amax = called(layer::block_amax);                         \
  (twin).block_quantize_e4m3 = called(layer::block_quantize_e4m3);       \
  (twin).block_quantize_e5m2 = called(layer::block_quantize_e5m2);       \
  (twin).block_dequantize_e4m3 = called(layer::block_dequantize_e4m3);   \
  (twin).block_dequantize_e5m2 = called(layer::block_dequantize_e5m2);   \
  (twin).current_scales = called(layer::current_scales);                 \
  (twin).mxfp8_scales = called(layer::mxfp8_scales);                     \
  (twin).delayed_scales = called(layer::delayed_scales)
#define ZP_HOST_TWINS(twin, layer)                         \
  (twin).clip_coef = layer::clip_coef;                     \
  (twin).grad_sum = layer::grad_sum;                       \
  (twin).grad_norm_normalise = layer::grad_norm_normalise; \
  (twin).grad_norm_finish = layer::grad_norm_finish;       \
  (twin).grad_abs_finish = layer::grad_abs_finish;         \
  (twin).grad_max_finish = layer::grad_max_finish;         \
  (twin).grad_norm_p = layer::grad_norm_p;                 \
  (twin).step_scalars = layer::step_scalars

inline Twin reference_twin() {
  Twin twin;
  twin.name = "reference";
  ZP_BUFFER_TWINS(twin, reference, );
  ZP_FORMAT_TWINS(twin, reference, );
  ZP_HOST_TWINS(twin, reference);
  return twin;
}

inline Twin host_twin(Isa isa) {
  Twin twin;
  twin.name = "host " + std::string(cuda::host::name(isa));
  twin.exec.isa = isa;
  twin.is_host = true;
  ZP_BUFFER_TWINS(twin, cuda::host, );
  ZP_FORMAT_TWINS(twin, cuda::host, );
  ZP_HOST_TWINS(twin, cuda::host);
  return twin;
}

inline Twin device_twin() {
  Twin twin;
  twin.name = "device";
  ZP_BUFFER_TWINS(twin, cuda::device, ZP_ON_DEVICE);
  ZP_FORMAT_TWINS(twin, cuda::device, ZP_ON_DEVICE);
  twin.grad_norm_p = ZP_ON_DEVICE(cuda::device::grad_norm_p);
  // The device's take a launch for each number; tests/cuda/update/device_scalars_test.cpp compares them.
  twin.grad_norm_normalise = cuda::host::grad_norm_normalise;
  twin.grad_norm_finish = cuda::host::grad_norm_finish;
  twin.grad_abs_finish = cuda::host::grad_abs_finish;
  twin.grad_max_finish = cuda::host::grad_max_finish;
  return twin;
}

#undef ZP_ON_DEVICE
#undef ZP_BUFFER_TWINS
#undef ZP_FORMAT_TWINS
#undef ZP_HOST_TWINS

inline std::vector<Twin> all_twins() {
  std::vector<Twin> twins = {reference_twin()};
  for (Isa isa : cuda::host::supported_isas()) twins.push_back(host_twin(isa));
  if (cuda::device::device_info().answers) twins.push_back(device_twin());
  return twins;
}

/// The twins that have an operation, for example &Twin::clip_coef.
template <class Function>
std::vector<Twin> twins_with(Function* Twin::*operation) {
  std::vector<Twin> twins = all_twins();
  std::erase_if(twins, [&](const Twin& twin) { return twin.*operation == nullptr; });
  return twins;
}

}  // namespace zeroproof::oracle
