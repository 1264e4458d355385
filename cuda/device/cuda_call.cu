#include "cuda/device/cuda_call.hpp"

#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime.hpp"

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

void* device_allocate(std::int64_t num_bytes) {
  void* data = nullptr;
  check_cuda(cudaMalloc(&data, static_cast<std::size_t>(num_bytes)), "allocating device memory");
  return data;
}

void device_release(void* data) noexcept {
  if (cudaFree(data) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

void copy_to_device(void* device, const void* host, std::int64_t num_bytes) {
  check_cuda(cudaMemcpy(device, host, static_cast<std::size_t>(num_bytes), cudaMemcpyHostToDevice),
             "copying to the device");
}

void copy_to_host(void* host, const void* device, std::int64_t num_bytes) {
  check_cuda(cudaMemcpy(host, device, static_cast<std::size_t>(num_bytes), cudaMemcpyDeviceToHost),
             "running a kernel and copying from the device");
}

void fill_device(void* device, unsigned char byte, std::int64_t num_bytes) {
  check_cuda(cudaMemset(device, byte, static_cast<std::size_t>(num_bytes)), "filling device memory");
}

int num_multiprocessors() {
  int device = 0;
  int count = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "counting multiprocessors");
  return count;
}

}  // namespace zeroproof::cuda::device
