#pragma once
// The CUDA device as the rest of the program sees it; this header needs no CUDA.

#include <string>

namespace zeroproof::cuda::device {

struct DeviceInfo {
  bool built = false;    ///< device code was compiled into this program
  bool answers = false;  ///< a device can run it
  std::string detail;    ///< device name, or why there is none
};

/// Asks the CUDA runtime once per process.
const DeviceInfo& device_info();

}  // namespace zeroproof::cuda::device
