#pragma once
// The one place that launches kernels; only nvcc can compile this header.

#include <utility>

#include "cuda/device/cuda_call.hpp"

namespace zeroproof::cuda::device {

/// Starts kernel(args...) on the default stream. What goes wrong while it runs is reported by the next copy.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int grid, int block, Arguments&&... args) {
  kernel<<<static_cast<unsigned>(grid), static_cast<unsigned>(block)>>>(std::forward<Arguments>(args)...);
  check_cuda(cudaGetLastError(), "launching a kernel");
}

}  // namespace zeroproof::cuda::device
