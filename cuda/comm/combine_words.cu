#include "cuda/comm/combine_words.hpp"

#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

namespace {

struct Add {
  template <class T>
  ZP_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};

struct Max {
  ZP_DEVICE std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const {
    return a < b ? b : a;
  }
};

struct Or {
  ZP_DEVICE std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a | b; }
};

template <class T, class Combine>
ZP_KERNEL combine_kernel(GatheredBlocks<T> blocks, Combine combine, T* combined) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = thread; i < blocks.numel; i += stride) {
    T value = blocks.data[i];
    for (int rank = 1; rank < blocks.ranks; ++rank)
      value = combine(value, blocks.data[rank * blocks.numel + i]);
    combined[i] = value;
  }
}

template <class T, class Combine>
void enqueue(const GatheredBlocks<T>& blocks, Combine combine, T* combined) {
  launch(combine_kernel<T, Combine>, grid_blocks(blocks.numel), block_threads, blocks, combine,
         combined);
}

}  // namespace

void enqueue_combine(const GatheredBlocks<std::uint64_t>& blocks, IntegerReduce op,
                     std::uint64_t* combined) {
  switch (op) {
    case IntegerReduce::sum:
      return enqueue(blocks, Add{}, combined);
    case IntegerReduce::max:
      return enqueue(blocks, Max{}, combined);
    case IntegerReduce::bitwise_or:
      return enqueue(blocks, Or{}, combined);
  }
}

void enqueue_add_ranks(const GatheredBlocks<float>& blocks, float* sum) {
  enqueue(blocks, Add{}, sum);
}

}  // namespace zeroproof::cuda::device
