#pragma once
// Calls of the CUDA runtime, errors in the project's grammar. It needs CUDA headers: for .cu files only.

#include <cuda_runtime.h>

#include <cstdint>

namespace zeroproof::cuda::device {

/// Throws Error(unavailable) if the machine is to blame, else Error(internal). `what` was being done:
/// "copying to the device". Clears the runtime's last error, so that the next check does not report this one
/// again.
void check_cuda(cudaError_t status, const char* what);

inline constexpr int block_threads = 256;

/// Blocks for so many threads' worth of work: at least 1, at most what fills the device. Kernels stride over
/// the rest, and no bit of a result depends on the number.
int grid_blocks(std::int64_t work_items);

}  // namespace zeroproof::cuda::device
