#include "cuda/device/host_staging.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "cuda/device/runtime/runtime.hpp"

namespace zeroproof::cuda::device {

DeviceBuffer::DeviceBuffer(std::int64_t num_bytes)
    : data_(static_cast<unsigned char*>(device_allocate(num_bytes))) {}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) device_release(data_);
}

unsigned char* HostStaging::find(const void* host) const {
  for (const Copy& copy : copies_) {
    if (copy.host == host) return copy.device;
  }
  return nullptr;
}

unsigned char* HostStaging::allocate(const void* host, std::int64_t num_bytes) {
  constexpr std::int64_t alignment = 16;  // device memory is aligned to at least 256 bytes
  const std::int64_t offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(host) % alignment);
  DeviceBuffer buffer(num_bytes + offset);
  unsigned char* device = buffer.data() + offset;
  copies_.push_back({host, device, std::move(buffer)});
  return device;
}

unsigned char* HostStaging::upload_bytes(const void* host, std::int64_t num_bytes) {
  unsigned char* device = find(host);
  if (device != nullptr) return device;
  device = allocate(host, num_bytes);
  copy_to_device(device, host, num_bytes);
  return device;
}

unsigned char* HostStaging::output_bytes(const void* host, std::int64_t num_bytes) {
  unsigned char* device = find(host);
  if (device != nullptr) return device;
  device = allocate(host, num_bytes);
  enqueue_fill(device, 0xFF, num_bytes);
  return device;
}

void HostStaging::download_bytes(void* host, std::int64_t num_bytes) const {
  const unsigned char* device = find(host);
  ZP_CHECK(device != nullptr, ErrorCode::internal, "a result was asked for that is not on the device",
           "there is nothing to copy", "call output() for the same span first");
  copy_to_host(host, device, num_bytes);
}

}  // namespace zeroproof::cuda::device
