#pragma once
// The device of a process that holds a plug-in.

#include <cstdint>
#include <string>

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::verification {

/// Why a library that asks for this device_type cannot have it in this program; "" if it can. Wakes the device.
std::string device_obstacle(std::int32_t device_type);

/// Operands of a call in device memory. The place they have in shared memory lies there as a whole, red zones included,
/// so whatever is looked at in the one was so in the other.
class WorkerDevice {
 public:
  /// The first device. Errors: unavailable if there is none.
  WorkerDevice();

  /// What kernels are to be enqueued on.
  void* stream();
  /// Copies a place to the device, on that stream; returns where it is. Errors: those of the device.
  char* put(const char* place, std::int64_t bytes);
  /// Waits for the stream, and copies the place back. Errors: what went wrong on the device since put().
  void take(char* place);

 private:
  cuda::device::Stream stream_;
  cuda::DeviceArray<char> memory_{0};
};

}  // namespace zeroproof::verification
