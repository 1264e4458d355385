#pragma once
// The CUDA device as seen by the rest of the program; this header needs no CUDA.

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::cuda::device {

struct DeviceInfo {
  bool built = false;      ///< device code was compiled into this program
  bool answers = false;    ///< a device can run it
  bool simulated = false;  ///< the processor simulates the device
  std::string detail;      ///< device name, or the reason why there is none
};

/// A device as listed by the driver.
struct ListedDevice {
  std::string name;
  std::int64_t num_bytes = 0;  ///< size of its memory
  int major = 0, minor = 0;    ///< compute capability

  static constexpr int oldest_major =
      8;  ///< oldest major version with compiled kernels (CMAKE_CUDA_ARCHITECTURES)
  bool is_usable() const { return major >= oldest_major; }
};

/// The result for this device in a program with device code.
DeviceInfo info_of(const ListedDevice& device);

/// Queries the CUDA runtime once per process.
const DeviceInfo& device_info();

/// Errors: unavailable if there is no usable device.
void require_device();

/// All devices that this process may use, by number; empty if there are none. Does not throw.
std::vector<ListedDevice> listed_devices();

}  // namespace zeroproof::cuda::device
