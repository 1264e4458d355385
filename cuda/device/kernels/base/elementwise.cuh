#pragma once
// One kernel for every element-wise operation. An operation has
//   pack_numel   number of elements that pack() processes
//   one(i)       element i
//   pack(i)      elements [i, i + pack_numel), every operand 16-byte aligned: the same arithmetic (R17)
// and, if it accumulates something,
//   start()      called by every thread of the block before its first element
//   finish()     called by every thread of the block after its last element
// Each thread works on its own copy of the operation.

#include <algorithm>

#include "cuda/device/kernels/base/pack.cuh"
#include "cuda/device/runtime/launch.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

template <class Operation>
ZP_KERNEL elementwise_kernel(Operation operation, PackSplit split) {
  if constexpr (requires { operation.start(); }) operation.start();
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t p = thread; p < split.num_packs; p += stride) {
    operation.pack(split.head + p * Operation::pack_numel);
  }
  for (std::int64_t i = thread; i < split.head; i += stride) operation.one(i);
  for (std::int64_t i = split.tail() + thread; i < split.numel; i += stride) operation.one(i);
  if constexpr (requires { operation.finish(); }) operation.finish();
}

/// Runs the operation on elements [0, numel), numel > 0. operands: every device pointer that it
/// reads or writes.
template <class Operation, class... T>
void run_elementwise(const Operation& operation, std::int64_t numel, const T*... operands) {
  const PackSplit split = split_packs(numel, Operation::pack_numel, operands...);
  const std::int64_t singles = std::max(split.head, numel - split.tail());
  launch(elementwise_kernel<Operation>, grid_blocks(std::max(split.num_packs, singles)),
         block_threads, operation, split);
}

}  // namespace zeroproof::cuda::device
