#pragma once
// Every implementation that is compared with the oracle, as a table of functions: the reference,
// the host implementations once for each instruction set of this processor, and the device
// implementations if there is a device.

#include <string>
#include <vector>

#include "cuda/device/grad_stats.hpp"
#include "cuda/device/operations.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/host/base/isa.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/update_operations.hpp"
#include "reference/operations.hpp"
#include "reference/update_operations.hpp"
#include "verification/ops/on_device.hpp"

namespace zeroproof::oracle {

/// A null function: the operation does not exist in this implementation.
struct Implementation {
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
  LambUpdateFn* lamb_update = nullptr;
  LambNormsFn* lamb_norms = nullptr;
  LambTrustRatioFn* lamb_trust_ratio = nullptr;
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

// The same names in every namespace. `called` wraps the functions over buffers.
#define ZP_ON_DEVICE(implementation) verification::on_device<implementation>
#define ZP_BUFFER_TWINS(implementation, layer, called)                                     \
  (implementation).unscale = called(layer::unscale);                                       \
  (implementation).clip = called(layer::clip);                                             \
  (implementation).clip_value = called(layer::clip_value);                                 \
  (implementation).add_nodes = called(layer::add_nodes);                                   \
  (implementation).adamw_update = called(layer::adamw_update);                             \
  (implementation).adam_update = called(layer::adam_update);                               \
  (implementation).sgd_update = called(layer::sgd_update);                                 \
  (implementation).sgd_ema_update = called(layer::sgd_ema_update);                         \
  (implementation).lion_update = called(layer::lion_update);                               \
  (implementation).lamb_update = called(layer::lamb_update);                               \
  (implementation).lamb_norms = called(layer::lamb_norms);                                 \
  (implementation).cast_to_bf16 = called(layer::cast_to_bf16);                             \
  (implementation).cast_to_fp16 = called(layer::cast_to_fp16);                             \
  (implementation).cast_to_e4m3 = called(layer::cast_to_e4m3);                             \
  (implementation).cast_to_e5m2 = called(layer::cast_to_e5m2);                             \
  (implementation).stochastic_cast_to_bf16 = called(layer::stochastic_cast_to_bf16);       \
  (implementation).widen_bf16 = called(layer::widen_bf16);                                 \
  (implementation).widen_fp16 = called(layer::widen_fp16);                                 \
  (implementation).widen_e4m3 = called(layer::widen_e4m3);                                 \
  (implementation).widen_e5m2 = called(layer::widen_e5m2);                                 \
  (implementation).grad_norm_accumulate = called(layer::grad_norm_accumulate);             \
  (implementation).grad_norm_exact_accumulate = called(layer::grad_norm_exact_accumulate); \
  (implementation).grad_abs_accumulate = called(layer::grad_abs_accumulate);               \
  (implementation).grad_max_accumulate = called(layer::grad_max_accumulate);               \
  (implementation).grad_stats = called(layer::grad_stats)
#define ZP_FORMAT_TWINS(implementation, layer, called)                             \
  (implementation).nonfinite_cast_to_e4m3 = called(layer::nonfinite_cast_to_e4m3); \
  (implementation).nonfinite_cast_to_e5m2 = called(layer::nonfinite_cast_to_e5m2); \
  (implementation).cast_to_e8m0 = called(layer::cast_to_e8m0);                     \
  (implementation).widen_e8m0 = called(layer::widen_e8m0);                         \
  (implementation).split_master = called(layer::split_master);                     \
  (implementation).join_master = called(layer::join_master);                       \
  (implementation).block_amax = called(layer::block_amax);                         \
  (implementation).block_quantize_e4m3 = called(layer::block_quantize_e4m3);       \
  (implementation).block_quantize_e5m2 = called(layer::block_quantize_e5m2);       \
  (implementation).block_dequantize_e4m3 = called(layer::block_dequantize_e4m3);   \
  (implementation).block_dequantize_e5m2 = called(layer::block_dequantize_e5m2);   \
  (implementation).current_scales = called(layer::current_scales);                 \
  (implementation).mxfp8_scales = called(layer::mxfp8_scales);                     \
  (implementation).delayed_scales = called(layer::delayed_scales)
#define ZP_HOST_TWINS(implementation, layer)                         \
  (implementation).clip_coef = layer::clip_coef;                     \
  (implementation).grad_sum = layer::grad_sum;                       \
  (implementation).lamb_trust_ratio = layer::lamb_trust_ratio;       \
  (implementation).grad_norm_normalise = layer::grad_norm_normalise; \
  (implementation).grad_norm_finish = layer::grad_norm_finish;       \
  (implementation).grad_abs_finish = layer::grad_abs_finish;         \
  (implementation).grad_max_finish = layer::grad_max_finish;         \
  (implementation).grad_norm_p = layer::grad_norm_p;                 \
  (implementation).step_scalars = layer::step_scalars

inline Implementation reference_implementation() {
  Implementation implementation;
  implementation.name = "reference";
  ZP_BUFFER_TWINS(implementation, reference, );
  ZP_FORMAT_TWINS(implementation, reference, );
  ZP_HOST_TWINS(implementation, reference);
  return implementation;
}

inline Implementation host_implementation(Isa isa) {
  Implementation implementation;
  implementation.name = "host " + std::string(cuda::host::name(isa));
  implementation.exec.isa = isa;
  implementation.is_host = true;
  ZP_BUFFER_TWINS(implementation, cuda::host, );
  ZP_FORMAT_TWINS(implementation, cuda::host, );
  ZP_HOST_TWINS(implementation, cuda::host);
  return implementation;
}

inline Implementation device_implementation() {
  Implementation implementation;
  implementation.name = "device";
  ZP_BUFFER_TWINS(implementation, cuda::device, ZP_ON_DEVICE);
  ZP_FORMAT_TWINS(implementation, cuda::device, ZP_ON_DEVICE);
  implementation.grad_norm_p = ZP_ON_DEVICE(cuda::device::grad_norm_p);
  // The device would need a launch per number; tests/cuda/update/device_scalars_test.cpp compares
  // them.
  implementation.lamb_trust_ratio = cuda::host::lamb_trust_ratio;
  implementation.grad_norm_normalise = cuda::host::grad_norm_normalise;
  implementation.grad_norm_finish = cuda::host::grad_norm_finish;
  implementation.grad_abs_finish = cuda::host::grad_abs_finish;
  implementation.grad_max_finish = cuda::host::grad_max_finish;
  return implementation;
}

#undef ZP_ON_DEVICE
#undef ZP_BUFFER_TWINS
#undef ZP_FORMAT_TWINS
#undef ZP_HOST_TWINS

inline std::vector<Implementation> all_implementations() {
  std::vector<Implementation> implementations = {reference_implementation()};
  for (Isa isa : cuda::host::supported_isas()) implementations.push_back(host_implementation(isa));
  if (cuda::device::device_info().answers) implementations.push_back(device_implementation());
  return implementations;
}

/// The implementations of an operation, for example &Implementation::clip_coef.
template <class Function>
std::vector<Implementation> implementations_with(Function* Implementation::*operation) {
  std::vector<Implementation> implementations = all_implementations();
  std::erase_if(implementations, [&](const Implementation& implementation) {
    return implementation.*operation == nullptr;
  });
  return implementations;
}

}  // namespace zeroproof::oracle
