#pragma once
// The CUDA device as the rest of the program sees it; this header needs no CUDA.

#include <cstdint>
#include <string>
#include <vector>

namespace zeroproof::cuda::device {

struct DeviceInfo {
  bool built = false;      ///< device code was compiled into this program
  bool answers = false;    ///< a device can run it
  bool simulated = false;  ///< on the processor
  std::string detail;      ///< device name, or why there is none
};

/// A device as the driver lists it.
struct ListedDevice {
  std::string name;
  std::int64_t num_bytes = 0;  ///< of its memory
  int major = 0, minor = 0;    ///< compute capability

  static constexpr int oldest_major =
      8;  ///< that kernels are compiled for (CMAKE_CUDA_ARCHITECTURES)
  bool is_usable() const { return major >= oldest_major; }
};

/// Of a program that was built for devices, on this one.
DeviceInfo info_of(const ListedDevice& device);

/// Asks the CUDA runtime once per process.
const DeviceInfo& device_info();

/// Errors: unavailable if no device answers.
void require_device();

/// All that this process may use, by number; none where none answer. Throws nothing.
std::vector<ListedDevice> listed_devices();

}  // namespace zeroproof::cuda::device
