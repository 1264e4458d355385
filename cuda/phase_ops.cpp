#include "cuda/phase_ops.hpp"

#include "common/base/error.hpp"
#include "cuda/device/adam.hpp"
#include "cuda/device/cast.hpp"
#include "cuda/device/clip.hpp"
#include "cuda/device/device.hpp"
#include "cuda/device/grad_norm.hpp"
#include "cuda/device/grad_scale.hpp"
#include "cuda/device/grad_sum.hpp"
#include "cuda/device/sgd.hpp"
#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"
#include "cuda/host/sgd.hpp"

namespace zeroproof::cuda {

const PhaseOps& host_ops() {
  static constexpr PhaseOps ops = {
      .widen_bf16 = host::widen_bf16,
      .widen_fp16 = host::widen_fp16,
      .add_nodes = host::add_nodes,
      .unscale = host::unscale,
      .grad_norm_accumulate = host::grad_norm_accumulate,
      .grad_norm_exact_accumulate = host::grad_norm_exact_accumulate,
      .grad_abs_accumulate = host::grad_abs_accumulate,
      .grad_max_accumulate = host::grad_max_accumulate,
      .clip = host::clip,
      .clip_value = host::clip_value,
      .adamw_update = host::adamw_update,
      .adam_update = host::adam_update,
      .sgd_update = host::sgd_update,
      .sgd_ema_update = host::sgd_ema_update,
      .cast_to_bf16 = host::cast_to_bf16,
      .cast_to_fp16 = host::cast_to_fp16,
      .stochastic_cast_to_bf16 = host::stochastic_cast_to_bf16,
  };
  return ops;
}

const PhaseOps& device_ops() {
  const device::DeviceInfo& info = device::device_info();
  ZP_CHECK(info.answers, ErrorCode::unavailable, "no CUDA device can run the device twins: " + info.detail,
           "the case asks for them",
           "use --twin host, or run on a machine with a device of compute capability 8.0");
  static constexpr PhaseOps ops = {
      .widen_bf16 = device::widen_bf16,
      .widen_fp16 = device::widen_fp16,
      .add_nodes = device::add_nodes,
      .unscale = device::unscale,
      .grad_norm_accumulate = device::grad_norm_accumulate,
      .grad_norm_exact_accumulate = device::grad_norm_exact_accumulate,
      .grad_abs_accumulate = device::grad_abs_accumulate,
      .grad_max_accumulate = device::grad_max_accumulate,
      .clip = device::clip,
      .clip_value = device::clip_value,
      .adamw_update = device::adamw_update,
      .adam_update = device::adam_update,
      .sgd_update = device::sgd_update,
      .sgd_ema_update = device::sgd_ema_update,
      .cast_to_bf16 = device::cast_to_bf16,
      .cast_to_fp16 = device::cast_to_fp16,
      .stochastic_cast_to_bf16 = device::stochastic_cast_to_bf16,
  };
  return ops;
}

}  // namespace zeroproof::cuda
