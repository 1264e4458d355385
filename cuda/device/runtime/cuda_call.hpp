#pragma once
// Calls of the CUDA runtime with errors in the project's form. Needs CUDA headers: for .cu files
// and cuda_*.cpp only.

#include <cuda_runtime.h>

namespace zeroproof::cuda::device {

/// Throws Error(unavailable) if the machine is the cause, else Error(internal). `what` names the
/// operation: "copying to the device". Clears the runtime's last error, so that the next check does
/// not report it again.
void check_cuda(cudaError_t status, const char* what);

/// The cudaStream_t of this thread's current stream.
cudaStream_t current_cuda_stream();

/// Counts one kernel launch on this thread.
void count_launch();

}  // namespace zeroproof::cuda::device
