// What the program knows about devices when it was built without CUDA.

#include "cuda/device/device.hpp"

namespace zeroproof::cuda::device {

const DeviceInfo& device_info() {
  static const DeviceInfo info{false, false, "not asked: this program has no device code"};
  return info;
}

}  // namespace zeroproof::cuda::device
