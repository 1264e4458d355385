#include <cuda_runtime.h>

#include <string>

#include "cuda/device/runtime/device.hpp"

namespace zeroproof::cuda::device {

namespace {

constexpr int oldest_major = 8;  // the oldest architecture in CMAKE_CUDA_ARCHITECTURES

/// Every error means the same to the caller. Without a driver the runtime leaves its results unwritten.
DeviceInfo ask() {
  DeviceInfo info;
  info.built = true;
  int num_devices = 0;
  cudaDeviceProp properties{};
  cudaError_t status = cudaGetDeviceCount(&num_devices);
  if (status == cudaSuccess && num_devices > 0) status = cudaGetDeviceProperties(&properties, 0);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // or the first launch would report it
    info.detail = std::string("no usable CUDA device: ") + cudaGetErrorString(status);
    return info;
  }
  if (num_devices == 0) {
    info.detail = "no usable CUDA device: the driver lists none";
    return info;
  }
  const std::string device = std::string(properties.name) + ", compute capability " +
                             std::to_string(properties.major) + "." + std::to_string(properties.minor);
  info.answers = properties.major >= oldest_major;
  info.detail = info.answers ? device : "no usable CUDA device: " + device + ", but 8.0 or newer is needed";
  return info;
}

}  // namespace

const DeviceInfo& device_info() {
  static const DeviceInfo info = ask();
  return info;
}

}  // namespace zeroproof::cuda::device
