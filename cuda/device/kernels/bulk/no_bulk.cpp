// Work on bytes of a device, in a program that was built without CUDA.

#include "common/base/error.hpp"
#include "cuda/device/kernels/bulk/batched_copy.hpp"
#include "cuda/device/kernels/bulk/count_differing.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void no_device() {
  fail(ErrorCode::unavailable, "memory of a device was to be copied or compared",
       "this program has no device code", "build it with ZP_CUDA=ON, or use the host twins");
}

}  // namespace

std::int64_t count_differing(const std::uint16_t*, const std::uint16_t*, std::int64_t) { no_device(); }
std::int64_t count_differing(const std::uint32_t*, const std::uint32_t*, std::int64_t) { no_device(); }
std::int64_t batched_copy_scratch_bytes(std::int64_t) { no_device(); }
void enqueue_batched_copy(const Move*, std::int64_t, void*) { no_device(); }

}  // namespace zeroproof::cuda::device
