#pragma once
// Calls of the CUDA runtime, errors in the project's grammar. It needs CUDA headers: for .cu files and cuda_*.cpp only.

#include <cuda_runtime.h>

namespace zeroproof::cuda::device {

/// Throws Error(unavailable) if the machine is to blame, else Error(internal). `what` was being done:
/// "copying to the device". Clears the runtime's last error, so that the next check does not report this one
/// again.
void check_cuda(cudaError_t status, const char* what);

/// Of the current stream of this thread.
cudaStream_t current_cuda_stream();

/// Counts a kernel on this thread.
void count_launch();

}  // namespace zeroproof::cuda::device
