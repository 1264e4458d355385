// Leaves on a device, in a program that was built without CUDA.

#include "common/base/error.hpp"
#include "cuda/reduce/sources/fill_leaf.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void no_device() {
  fail(ErrorCode::unavailable, "leaves on a device were asked for", "this program has no device code",
       "build it with ZP_CUDA=ON, or make them on the host");
}

}  // namespace

void enqueue_leaf(const LeafFormula&, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,
                  const TensorView&) {
  no_device();
}
void enqueue_clock(std::uint64_t*) { no_device(); }
void enqueue_until(const std::uint64_t*, std::int64_t) { no_device(); }

}  // namespace zeroproof::cuda::device
