#include "verification/bench/device/unordered_norm.hpp"

#include <cub/device/device_reduce.cuh>

#include "cuda/device/runtime/cuda_call.hpp"

namespace zeroproof::verification::bench {

namespace {

struct Square {
  __host__ __device__ float operator()(float value) const { return value * value; }
};
struct Plus {
  __host__ __device__ float operator()(float left, float right) const { return left + right; }
};

/// With scratch = null only says how much of it is needed.
std::size_t reduce(void* scratch, std::size_t num_bytes, const float* values, float* sum,
                   std::int64_t numel) {
  cuda::device::check_cuda(
      cub::DeviceReduce::TransformReduce(scratch, num_bytes, values, sum, numel, Plus{}, Square{}, 0.0F,
                                         cuda::device::current_cuda_stream()),
      "adding squares with CUB");
  return num_bytes;
}

}  // namespace

UnorderedNorm::UnorderedNorm(const float* values, std::int64_t numel)
    : values_(values),
      numel_(numel),
      sum_(cuda::device_space(), 1),
      scratch_(cuda::device_space(),
               static_cast<std::int64_t>(reduce(nullptr, 0, values, sum_.data(), numel))) {}

bool UnorderedNorm::available() { return true; }

void UnorderedNorm::enqueue() const {
  reduce(scratch_.data(), static_cast<std::size_t>(scratch_.count()), values_, sum_.data(), numel_);
}

}  // namespace zeroproof::verification::bench
