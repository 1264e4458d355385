// Memory and copies of the simulated device.

#include "cuda/device/runtime/memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"
#include "cuda/device/sim/current.hpp"
#include "cuda/device/sim/device_memory.hpp"

namespace zeroproof::cuda::device {

namespace {

std::size_t size(std::int64_t num_bytes) { return static_cast<std::size_t>(num_bytes); }

using Blocks = std::map<const unsigned char*, std::int64_t>;  // address and size

/// Pinned memory of the process. Guarded by device_mutex(), as is the next one.
Blocks& pinned_blocks() {
  static Blocks blocks;
  return blocks;
}

/// Memory at the same addresses on both sides.
Blocks& shared_blocks() {
  static Blocks blocks;
  return blocks;
}

bool contains(const Blocks& blocks, const unsigned char* at, std::int64_t num_bytes) {
  auto after = blocks.upper_bound(at);
  return after != blocks.begin() && at + num_bytes <= (--after)->first + after->second;
}

void require_pinned(const void* host, std::int64_t num_bytes) {
  const auto* const at = static_cast<const unsigned char*>(host);
  ZP_CHECK(contains(pinned_blocks(), at, num_bytes), ErrorCode::invalid_argument,
           "an asynchronous copy got host memory that is not pinned" + in_named_step(),
           "the copy would block, or read memory after a change",
           "allocate it with pinned_allocate");
}

void enqueue_copy(void* target, const void* source, std::int64_t num_bytes) {
  ++counted_calls().copies;
  sim::enqueue([=] { std::memcpy(target, source, size(num_bytes)); });
}

}  // namespace

void* device_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  const std::lock_guard lock(sim::device_mutex());
  if (capturing()) refuse_in_capture("an allocation of device memory");
  unsigned char* data = sim::DeviceMemory::instance().reserve(num_bytes);
  ++counted_calls().allocations;
  sim::enqueue([data] { sim::DeviceMemory::instance().start(data); });
  return data;
}

void device_release(void* data) noexcept {
  if (data == nullptr) return;
  const std::lock_guard lock(sim::device_mutex());
  sim::enqueue(
      [data] { sim::DeviceMemory::instance().release(static_cast<unsigned char*>(data)); });
}

void* pinned_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  const std::lock_guard lock(sim::device_mutex());
  if (capturing()) refuse_in_capture("an allocation of pinned memory");
  void* data = MAP_FAILED;
  const bool refused = sim::scarce_memory().pinned_allocations == 0;
  if (!refused) --sim::scarce_memory().pinned_allocations;
  if (!refused)
    data = ::mmap(nullptr, size(num_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0);
  ZP_CHECK(data != MAP_FAILED, ErrorCode::unavailable,
           "allocating " + std::to_string(num_bytes) + " bytes of pinned memory failed" +
               in_named_step(),
           "the system has too little memory", "free some of it");
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

void* shared_allocate(std::int64_t num_bytes) {
  require_allocation(num_bytes);
  const std::lock_guard lock(sim::device_mutex());
  if (capturing()) refuse_in_capture("an allocation of shared memory");
  void* const data =
      ::mmap(nullptr, size(num_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ZP_CHECK(data != MAP_FAILED, ErrorCode::unavailable,
           "allocating " + std::to_string(num_bytes) + " bytes of shared memory failed" +
               in_named_step(),
           "the system has too little memory", "free some of it");
  ++counted_calls().allocations;
  shared_blocks()[static_cast<const unsigned char*>(data)] = num_bytes;
  return data;
}

void keep_on_host(void* data, std::int64_t num_bytes) {
  const std::lock_guard lock(sim::device_mutex());
  const auto* const at = static_cast<const unsigned char*>(data);
  ZP_CHECK(num_bytes >= 0 && contains(shared_blocks(), at, num_bytes), ErrorCode::invalid_argument,
           "only shared memory can move to the host" + in_named_step(),
           "the address is in no shared allocation", "allocate it with shared_allocate");
}

void shared_release(void* data) noexcept {
  if (data == nullptr) return;
  const std::lock_guard lock(sim::device_mutex());
  const auto block = shared_blocks().find(static_cast<const unsigned char*>(data));
  if (block == shared_blocks().end()) return;
  ::munmap(data, size(block->second));
  shared_blocks().erase(block);
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

bool is_on_device(const void* data) {
  const std::lock_guard lock(sim::device_mutex());
  return sim::DeviceMemory::instance().has(data) ||
         contains(shared_blocks(), static_cast<const unsigned char*>(data), 1);
}

bool is_on_host(const void* data) {
  const std::lock_guard lock(sim::device_mutex());
  return !sim::DeviceMemory::instance().has(data);
}

}  // namespace zeroproof::cuda::device
