#include "cuda/device/runtime/cuda_call.hpp"

#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Whether another machine, another driver or a less busy device would avoid the error.
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
  const std::string problem = std::string(what) + " failed" + in_named_step();
  const std::string why = std::string("CUDA says: ") + cudaGetErrorString(status);
  if (machine_is_to_blame(status)) {
    fail(ErrorCode::unavailable, problem, why,
         "make a device available to this process, or use the host implementations");
  }
  fail(ErrorCode::internal, problem, why,
       "please report it with the output of compute-sanitizer for the same command");
}

int num_devices() {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "counting devices");
  ZP_CHECK(count > 0, ErrorCode::unavailable, "no CUDA device can be used", "the driver lists none",
           "make a device available to this process, or use the host implementations");
  return count;
}

int choose_device(int local_rank) {
  require_local_rank(local_rank);
  const int device = local_rank % num_devices();
  check_cuda(cudaSetDevice(device), "choosing a device");
  return device;
}

int num_multiprocessors() {
  int device = 0;
  int count = 0;
  check_cuda(cudaGetDevice(&device), "getting the current device");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "counting multiprocessors");
  return count;
}

}  // namespace zeroproof::cuda::device
