#include "verification/plugin/worker_device.hpp"

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "verification/capi/zeroproof_plugin.h"

namespace zeroproof::verification {

std::string device_obstacle(std::int32_t device_type) {
  const cuda::device::DeviceInfo& info = cuda::device::device_info();
  if (device_type == ZEROPROOF_SIMULATED) {
    return info.simulated ? "" : "was built for the simulated device, which this program does not have";
  }
  if (info.simulated) return "was built for a GPU, and this program simulates its device";
  return info.answers ? "" : "wants its operands on a device, and none answers here (" + info.detail + ")";
}

WorkerDevice::WorkerDevice() { cuda::device::choose_device(0); }

void* WorkerDevice::stream() {
  const cuda::device::UseStream use(stream_);
  return cuda::device::native_stream();
}

void WorkerDevice::Release::operator()(char* memory) const { cuda::device::device_release(memory); }

char* WorkerDevice::put(const char* place, std::int64_t bytes) {
  const cuda::device::UseStream use(stream_);
  memory_.reset(static_cast<char*>(cuda::device::device_allocate(bytes)));
  bytes_ = bytes;
  cuda::device::copy_to_device(memory_.get(), place, bytes);
  return memory_.get();
}

void WorkerDevice::take(char* place) {
  const cuda::device::UseStream use(stream_);
  cuda::device::copy_to_host(place, memory_.get(), bytes_);
  memory_.reset();
  cuda::device::wait_for_stream();
}

}  // namespace zeroproof::verification
