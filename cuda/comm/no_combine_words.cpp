// What a program built without CUDA has instead of combine_words.cu.

#include "common/base/error.hpp"
#include "cuda/comm/combine_words.hpp"

namespace zeroproof::cuda::device {

namespace {

[[noreturn]] void no_device() {
  fail(ErrorCode::unavailable, "words of ranks were to be combined on a device",
       "this program has no device code", "build it with ZP_CUDA=ON, or use the host twins");
}

}  // namespace

void enqueue_combine(const GatheredBlocks<std::uint64_t>&, IntegerReduce, std::uint64_t*) { no_device(); }
void enqueue_add_ranks(const GatheredBlocks<float>&, float*) { no_device(); }

}  // namespace zeroproof::cuda::device
