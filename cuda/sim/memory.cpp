// Memory and copies of the simulated device.

#include "cuda/device/runtime/memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/sim/current.hpp"
#include "cuda/sim/device_memory.hpp"

namespace zeroproof::cuda::device {

namespace {

std::size_t size(std::int64_t num_bytes) { return static_cast<std::size_t>(num_bytes); }

/// Pinned memory of the process: address and size. With device_mutex().
std::map<const unsigned char*, std::int64_t>& pinned_blocks() {
  static std::map<const unsigned char*, std::int64_t> blocks;
  return blocks;
}

void require_pinned(const void* host, std::int64_t num_bytes) {
  const auto* at = static_cast<const unsigned char*>(host);
  auto after = pinned_blocks().upper_bound(at);
  const bool inside = after != pinned_blocks().begin() && at + num_bytes <= (--after)->first + after->second;
  ZP_CHECK(inside, ErrorCode::invalid_argument,
           "a copy that does not wait was asked for of host memory that is not pinned" + in_named_step(),
           "the device would wait for it, or find other content", "allocate it with pinned_allocate");
}

void enqueue_copy(void* target, const void* source, std::int64_t num_bytes) {
  ++counted_calls().copies;
  sim::enqueue([=] { std::memcpy(target, source, size(num_bytes)); });
}

}  // namespace

void* device_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  const std::lock_guard lock(sim::device_mutex());
  if (capturing()) refuse_in_capture("device memory");
  unsigned char* data = sim::DeviceMemory::instance().reserve(num_bytes);
  ++counted_calls().allocations;
  sim::enqueue([data] { sim::DeviceMemory::instance().start(data); });
  return data;
}

void device_release(void* data) noexcept {
  if (data == nullptr) return;
  const std::lock_guard lock(sim::device_mutex());
  sim::enqueue([data] { sim::DeviceMemory::instance().release(static_cast<unsigned char*>(data)); });
}

void* pinned_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  const std::lock_guard lock(sim::device_mutex());
  if (capturing()) refuse_in_capture("pinned memory");
  void* data = MAP_FAILED;
  const bool refused = sim::scarce_memory().pinned_allocations == 0;
  if (!refused) --sim::scarce_memory().pinned_allocations;
  if (!refused)
    data = ::mmap(nullptr, size(num_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ZP_CHECK(data != MAP_FAILED, ErrorCode::unavailable,
           "allocating " + std::to_string(num_bytes) + " bytes of pinned memory failed" + in_named_step(),
           "the system has not so much", "free some of it");
  ++counted_calls().allocations;
  pinned_blocks()[static_cast<const unsigned char*>(data)] = num_bytes;
  return data;
}

void pinned_release(void* data) noexcept {
  if (data == nullptr) return;
  const std::lock_guard lock(sim::device_mutex());
  const auto block = pinned_blocks().find(static_cast<const unsigned char*>(data));
  if (block == pinned_blocks().end()) return;
  ::munmap(data, size(block->second));
  pinned_blocks().erase(block);
}

void enqueue_to_device(void* device, const void* pinned, std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (num_bytes == 0) return;
  const std::lock_guard lock(sim::device_mutex());
  require_pinned(pinned, num_bytes);
  enqueue_copy(device, pinned, num_bytes);
}

void enqueue_to_host(void* pinned, const void* device, std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (num_bytes == 0) return;
  const std::lock_guard lock(sim::device_mutex());
  require_pinned(pinned, num_bytes);
  enqueue_copy(pinned, device, num_bytes);
}

void enqueue_on_device(void* target, const void* source, std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (num_bytes > 0) enqueue_copy(target, source, num_bytes);
}

void enqueue_fill(void* device, unsigned char byte, std::int64_t num_bytes) {
  require_copy(num_bytes);
  if (num_bytes == 0) return;
  ++counted_calls().copies;
  sim::enqueue([=] { std::memset(device, byte, size(num_bytes)); });
}

bool lies_on_device(const void* data) {
  const std::lock_guard lock(sim::device_mutex());
  return sim::DeviceMemory::instance().has(data);
}

bool lies_on_host(const void* data) { return !lies_on_device(data); }

}  // namespace zeroproof::cuda::device
