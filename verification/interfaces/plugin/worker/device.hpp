#pragma once
// The device of a process that holds a plug-in.

#include <cstdint>
#include <string>

#include "cuda/device/runtime/raw_array.hpp"
#include "cuda/device/runtime/stream.hpp"

namespace zeroproof::verification {

/// The reason that a library with this device_type cannot run in this program; "" if it can. Opens
/// the device.
std::string device_obstacle(std::int32_t device_type);

/// Operands of a call in device memory. Their slot in shared memory is copied there as a whole, red
/// zones included, so that all checks of the shared slot hold for the device too.
class WorkerDevice {
 public:
  /// The first device. Errors: unavailable if there is none.
  WorkerDevice();

  /// The stream of the kernels.
  void* stream();
  /// Copies a slot to the device, on that stream; returns its address. Errors: those of the device.
  char* put(const char* place, std::int64_t bytes);
  /// Waits for the stream, and copies the slot back. Errors: those of the device since put().
  void take(char* place);

 private:
  cuda::device::Stream stream_;
  cuda::DeviceArray<char> memory_{0};
};

}  // namespace zeroproof::verification
