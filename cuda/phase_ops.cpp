#include "cuda/phase_ops.hpp"

#include "common/base/error.hpp"
#include "cuda/device/cast.hpp"
#include "cuda/device/clip.hpp"
#include "cuda/device/grad_norm.hpp"
#include "cuda/device/grad_scale.hpp"
#include "cuda/device/grad_sum.hpp"
#include "cuda/device/runtime/device.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"

namespace zeroproof::cuda {

const PhaseOps& host_ops() {
  static constexpr PhaseOps ops = [] {
    PhaseOps all{};
    static_cast<UpdateTwins&>(all) = host_updates;
    all.widen_bf16 = host::widen_bf16;
    all.widen_fp16 = host::widen_fp16;
    all.add_nodes = host::add_nodes;
    all.fused_fold = host::fused_fold;
    all.unscale = host::unscale;
    all.grad_norm_accumulate = host::grad_norm_accumulate;
    all.grad_norm_exact_accumulate = host::grad_norm_exact_accumulate;
    all.grad_abs_accumulate = host::grad_abs_accumulate;
    all.grad_max_accumulate = host::grad_max_accumulate;
    all.clip = host::clip;
    all.clip_value = host::clip_value;
    all.cast_to_bf16 = host::cast_to_bf16;
    all.cast_to_fp16 = host::cast_to_fp16;
    all.stochastic_cast_to_bf16 = host::stochastic_cast_to_bf16;
    return all;
  }();
  return ops;
}

void require_device() {
  const device::DeviceInfo& info = device::device_info();
  ZP_CHECK(info.answers, ErrorCode::unavailable, "no CUDA device can run the device twins: " + info.detail,
           "the case asks for them",
           "use --twin host, or run on a machine with a device of compute capability 8.0");
}

const PhaseOps& device_ops() {
  require_device();
  static constexpr PhaseOps ops = [] {
    PhaseOps all{};
    static_cast<UpdateTwins&>(all) = device_updates;
    all.widen_bf16 = device::widen_bf16;
    all.widen_fp16 = device::widen_fp16;
    all.add_nodes = device::add_nodes;
    all.unscale = device::unscale;
    all.grad_norm_accumulate = device::grad_norm_accumulate;
    all.grad_norm_exact_accumulate = device::grad_norm_exact_accumulate;
    all.grad_abs_accumulate = device::grad_abs_accumulate;
    all.grad_max_accumulate = device::grad_max_accumulate;
    all.clip = device::clip;
    all.clip_value = device::clip_value;
    all.cast_to_bf16 = device::cast_to_bf16;
    all.cast_to_fp16 = device::cast_to_fp16;
    all.stochastic_cast_to_bf16 = device::stochastic_cast_to_bf16;
    return all;
  }();
  return ops;
}

}  // namespace zeroproof::cuda
