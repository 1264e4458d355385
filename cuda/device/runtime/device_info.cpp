#include <cuda_runtime.h>

#include <string>

#include "cuda/device/runtime/device.hpp"

namespace zeroproof::cuda::device {

namespace {

/// Every error has the same meaning for the caller. Without a driver the runtime does not write its
/// results.
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
  return info_of({properties.name, static_cast<std::int64_t>(properties.totalGlobalMem),
                  properties.major, properties.minor});
}

}  // namespace

const DeviceInfo& device_info() {
  static const DeviceInfo info = ask();
  return info;
}

std::vector<ListedDevice> listed_devices() {
  std::vector<ListedDevice> devices;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    ListedDevice& device = devices.emplace_back();
    device.name = "a device that returned an error";
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) continue;
    device = {properties.name, static_cast<std::int64_t>(properties.totalGlobalMem),
              properties.major, properties.minor};
  }
  static_cast<void>(cudaGetLastError());  // or the first launch would report it
  return devices;
}

}  // namespace zeroproof::cuda::device
