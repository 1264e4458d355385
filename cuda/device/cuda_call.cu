#include "cuda/device/cuda_call.hpp"

#include <algorithm>
#include <string>

#include "common/base/error.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Whether another machine, driver or a less busy device would have helped.
bool machine_is_to_blame(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return true;
    default:
      return false;
  }
}

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  const std::string problem = std::string(what) + " failed";
  const std::string why = std::string("CUDA says: ") + cudaGetErrorString(status);
  if (machine_is_to_blame(status)) {
    fail(ErrorCode::unavailable, problem, why,
         "make a device available to this process, or use the host twins");
  }
  fail(ErrorCode::internal, problem, why,
       "please report it with what compute-sanitizer prints for the same command");
}

int grid_blocks(std::int64_t work_items) {
  constexpr std::int64_t blocks_per_multiprocessor = 8;  // 2048 threads, all that one holds
  int device = 0;
  int multiprocessors = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
             "counting multiprocessors");
  const std::int64_t wanted = (work_items + block_threads - 1) / block_threads;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, blocks_per_multiprocessor * multiprocessors));
}

}  // namespace zeroproof::cuda::device
