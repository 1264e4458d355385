#include "tests/cuda/sweeps/sweep_kernels.hpp"

#include <cmath>

#include "cuda/device/kernels/formats/cast_element.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::device_test {

namespace {

using namespace cuda::device;

struct Root {
  ZP_DEVICE std::uint32_t operator()(float value) const {
    const std::uint32_t bits = bits_of(sqrtf(value));
    return (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFFFFFU : bits;
  }
};

struct ToBf16 {
  ZP_DEVICE std::uint16_t operator()(float value) const {
    const std::uint16_t bits = bf16_bits(value);
    return (bits & 0x7FFFU) > 0x7F80U ? std::uint16_t{0x7FFF} : bits;
  }
};

struct ToFp16 {
  ZP_DEVICE std::uint16_t operator()(float value) const {
    const std::uint16_t bits = fp16_bits(value);
    return (bits & 0x7FFFU) > 0x7C00U ? std::uint16_t{0x7FFF} : bits;
  }
};

template <class Operation, class Word>
ZP_KERNEL sweep_kernel(Operation operation, std::uint32_t first, std::int64_t numel, Word* words) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = thread; i < numel; i += stride)
    words[i] = operation(float_of(first + static_cast<std::uint32_t>(i)));
}

template <class Operation, class Word>
void enqueue(std::uint32_t first, std::int64_t numel, Word* words) {
  launch(sweep_kernel<Operation, Word>, grid_blocks(numel), block_threads, Operation{}, first,
         numel, words);
}

}  // namespace

void enqueue_roots(std::uint32_t first, std::int64_t numel, std::uint32_t* roots) {
  enqueue<Root>(first, numel, roots);
}
void enqueue_bf16(std::uint32_t first, std::int64_t numel, std::uint16_t* bits) {
  enqueue<ToBf16>(first, numel, bits);
}
void enqueue_fp16(std::uint32_t first, std::int64_t numel, std::uint16_t* bits) {
  enqueue<ToFp16>(first, numel, bits);
}

}  // namespace zeroproof::device_test
