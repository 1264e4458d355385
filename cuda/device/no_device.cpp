// What a program built without CUDA knows about devices: that it cannot use any.

#include "common/base/error.hpp"
#include "cuda/device/adam.hpp"
#include "cuda/device/cast.hpp"
#include "cuda/device/clip.hpp"
#include "cuda/device/device.hpp"
#include "cuda/device/grad_norm.hpp"
#include "cuda/device/grad_scale.hpp"
#include "cuda/device/grad_sum.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void no_device() {
  fail(ErrorCode::unavailable, "a device twin was called", "this program has no device code",
       "build it with ZP_CUDA=ON, or use the host twins");
}

}  // namespace

const DeviceInfo& device_info() {
  static const DeviceInfo info{false, false, "not asked: this program has no device code"};
  return info;
}

void cast_to_bf16(const Exec&, Span<const float>, Span<bf16>) { no_device(); }
void cast_to_fp16(const Exec&, Span<const float>, Span<fp16>) { no_device(); }
void widen_bf16(const Exec&, Span<const bf16>, Span<float>) { no_device(); }
void widen_fp16(const Exec&, Span<const fp16>, Span<float>) { no_device(); }
void add_nodes(const Exec&, Span<const float>, Span<const float>, Span<float>) { no_device(); }
bool unscale(const Exec&, float, Span<const float>, Span<float>) { no_device(); }
void grad_norm_accumulate(const Exec&, Span<const float>, NormLimbs&) { no_device(); }
void clip(const Exec&, float, Span<const float>, Span<float>) { no_device(); }
void adamw_update(const Exec&, const StepScalars&, Span<const float>, Span<float>, Span<float>, Span<float>) {
  no_device();
}

}  // namespace zeroproof::cuda::device
