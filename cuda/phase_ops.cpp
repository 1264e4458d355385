#include "cuda/phase_ops.hpp"

#include "common/base/error.hpp"
#include "cuda/device/adam.hpp"
#include "cuda/device/cast.hpp"
#include "cuda/device/clip.hpp"
#include "cuda/device/device.hpp"
#include "cuda/device/grad_norm.hpp"
#include "cuda/device/grad_scale.hpp"
#include "cuda/device/grad_sum.hpp"
#include "cuda/host/adam.hpp"
#include "cuda/host/cast.hpp"
#include "cuda/host/clip.hpp"
#include "cuda/host/grad_norm.hpp"
#include "cuda/host/grad_scale.hpp"
#include "cuda/host/grad_sum.hpp"

namespace zeroproof::cuda {

const PhaseOps& host_ops() {
  static constexpr PhaseOps ops = {host::widen_bf16,   host::widen_fp16,           host::add_nodes,
                                   host::unscale,      host::grad_norm_accumulate, host::clip,
                                   host::adamw_update, host::cast_to_bf16,         host::cast_to_fp16};
  return ops;
}

const PhaseOps& device_ops() {
  const device::DeviceInfo& info = device::device_info();
  ZP_CHECK(info.answers, ErrorCode::unavailable, "no CUDA device can run the device twins: " + info.detail,
           "the case asks for them",
           "use --twin host, or run on a machine with a device of compute capability 8.0");
  static constexpr PhaseOps ops = {device::widen_bf16,   device::widen_fp16,           device::add_nodes,
                                   device::unscale,      device::grad_norm_accumulate, device::clip,
                                   device::adamw_update, device::cast_to_bf16,         device::cast_to_fp16};
  return ops;
}

}  // namespace zeroproof::cuda
