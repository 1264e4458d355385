// The simulated device: its memory is the processor's, between guards that are looked at whenever something
// is copied.

#include "cuda/device/runtime.hpp"

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/error.hpp"
#include "cuda/device/device.hpp"
#include "cuda/sim/guarded_bytes.hpp"

namespace zeroproof::cuda::device {

namespace {

std::mutex mutex;                                         // ranks may be threads of one process
std::vector<std::unique_ptr<sim::GuardedBytes>> buffers;  // that are allocated now

std::size_t size(std::int64_t num_bytes) { return static_cast<std::size_t>(num_bytes); }

}  // namespace

const DeviceInfo& device_info() {
  static const DeviceInfo info{true, true, "simulated on the processor"};
  return info;
}

/// So few that kernels have to stride at the sizes of tests.
int num_multiprocessors() { return 3; }

void* device_allocate(std::int64_t num_bytes) {
  const std::lock_guard lock(mutex);
  buffers.push_back(std::make_unique<sim::GuardedBytes>(size(num_bytes)));
  return buffers.back()->data();
}

void device_release(void* data) noexcept {
  const std::lock_guard lock(mutex);
  std::erase_if(buffers, [&](const auto& buffer) { return buffer->data() == data; });
}

void copy_to_device(void* device, const void* host, std::int64_t num_bytes) {
  std::memcpy(device, host, size(num_bytes));
}

void copy_to_host(void* host, const void* device, std::int64_t num_bytes) {
  const std::lock_guard lock(mutex);
  for (const auto& buffer : buffers) {
    ZP_CHECK(buffer->guards_intact(), ErrorCode::internal, "a kernel wrote outside its buffers",
             "on a device that changes somebody else's memory", "correct the kernel's bounds");
  }
  std::memcpy(host, device, size(num_bytes));
}

void fill_device(void* device, unsigned char byte, std::int64_t num_bytes) {
  std::memset(device, byte, size(num_bytes));
}

}  // namespace zeroproof::cuda::device
