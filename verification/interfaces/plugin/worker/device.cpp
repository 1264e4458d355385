#include "verification/interfaces/plugin/worker/device.hpp"

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "verification/interfaces/capi/zeroproof_plugin.h"

namespace zeroproof::verification {

std::string device_obstacle(std::int32_t device_type) {
  const cuda::device::DeviceInfo& info = cuda::device::device_info();
  if (device_type == ZEROPROOF_SIMULATED) {
    return info.simulated ? ""
                          : "was built for the simulated device, which this program does not have";
  }
  if (info.simulated) return "was built for a GPU, and this program simulates its device";
  return info.answers ? "" : "needs a device, and there is none (" + info.detail + ")";
}

WorkerDevice::WorkerDevice() { cuda::device::choose_device(0); }

void* WorkerDevice::stream() {
  const cuda::device::UseStream use(stream_);
  return cuda::device::native_stream();
}

char* WorkerDevice::put(const char* place, std::int64_t bytes) {
  const cuda::device::UseStream use(stream_);
  memory_ = cuda::DeviceArray<char>(bytes);
  cuda::device::stage_to_device(memory_.data(), place, bytes);
  return memory_.data();
}

void WorkerDevice::take(char* place) {
  const cuda::device::UseStream use(stream_);
  cuda::device::stage_to_host(place, memory_.data(), memory_.num_bytes());
  memory_ = cuda::DeviceArray<char>(0);
  cuda::device::wait_for_stream();
}

}  // namespace zeroproof::verification
