#include "cuda/device/sim/device_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "common/base/error.hpp"
#include "cuda/device/runtime/calls.hpp"

namespace zeroproof::cuda::sim {

namespace {

constexpr std::size_t capacity = std::size_t{16}
                                 << 30;  // address range; pages are allocated at the first write
// Access rights change page by page, tens of thousands of times in a run: small pages would take
// most of its time.
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t alignment = 256;
constexpr std::size_t guard_bytes =
    256;  // in front, so that data stays aligned; behind, up to the next block
constexpr unsigned char guard = 0xA7;
constexpr unsigned char given_back = 0xFF;
constexpr std::size_t most_checked = 256;  // allocations per call

std::size_t rounded(std::size_t size, std::size_t unit = alignment) {
  return (size + unit - 1) / unit * unit;
}

bool is_guard(const unsigned char* begin, const unsigned char* end) {
  return std::all_of(begin, end, [](unsigned char byte) { return byte == guard; });
}

bool holds_only(unsigned char byte, const unsigned char* begin, std::size_t size) {
  return *begin == byte && std::memcmp(begin, begin + 1, size - 1) == 0;
}

void require_intact(bool intact) {
  ZP_CHECK(intact, ErrorCode::internal,
           "a kernel wrote outside its buffers" + device::in_named_step(),
           "on a device that overwrites other memory", "correct the kernel's bounds");
}

}  // namespace

ScarceMemory& scarce_memory() {
  static ScarceMemory scarce;
  return scarce;
}

DeviceMemory& DeviceMemory::instance() {
  static DeviceMemory* const memory =
      new DeviceMemory;  // threads may still release memory after statics are destroyed
  return *memory;
}

DeviceMemory::DeviceMemory() {
  void* base = ::mmap(nullptr, capacity + huge_page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ZP_CHECK(base != MAP_FAILED, ErrorCode::unavailable, "the simulated device has no memory",
           "the system refused an address range of 16 GiB",
           "raise the address space limit (ulimit -v)");
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  base_ = static_cast<unsigned char*>(base) + (rounded(address, huge_page) - address);
  ::madvise(base_, capacity, MADV_HUGEPAGE);  // without huge pages the system is only slower
}

void DeviceMemory::protect(int rights) const {
  if (used_ == 0) return;
  ZP_CHECK(::mprotect(base_, rounded(used_, huge_page), rights) == 0, ErrorCode::internal,
           "the simulated device cannot change access to its memory", "the system refused mprotect",
           "report it");
}

void DeviceMemory::open() {
  if (open_++ == 0) protect(PROT_READ | PROT_WRITE);
}

void DeviceMemory::close() {
  if (--open_ == 0) protect(PROT_NONE);
}

std::size_t DeviceMemory::find_free(std::size_t size, bool& fresh) {
  fresh = false;
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second >= size && (best == free_.end() || it->second < best->second)) best = it;
  }
  if (best == free_.end()) {
    ZP_CHECK(size <= capacity - used_, ErrorCode::unavailable,
             "allocating device memory failed" + device::in_named_step(),
             "the simulated device has 16 GiB", "use a smaller model");
    const std::size_t offset = used_;
    used_ += size;
    fresh = true;
    if (open_ > 0) protect(PROT_READ | PROT_WRITE);
    return offset;
  }
  const std::size_t offset = best->first;
  const std::size_t rest = best->second - size;
  free_.erase(best);
  if (rest > 0) free_[offset + size] = rest;
  return offset;
}

bool DeviceMemory::has(const void* data) const {
  const auto* const at = static_cast<const unsigned char*>(data);
  const auto after =
      blocks_.upper_bound(const_cast<unsigned char*>(at));  // NOLINT(*-const-cast): only compared
  return after != blocks_.begin() &&
         at < std::prev(after)->first +
                  static_cast<std::ptrdiff_t>(std::prev(after)->second.num_bytes);
}

std::int64_t DeviceMemory::bytes_in_use() const {
  std::size_t bytes = 0;
  for (const auto& [data, block] : blocks_) bytes += block.num_bytes;
  return static_cast<std::int64_t>(bytes);
}

unsigned char* DeviceMemory::reserve(std::int64_t num_bytes) {
  const auto bytes = static_cast<std::size_t>(num_bytes);
  const std::int64_t most = scarce_memory().device_bytes;
  const bool enough =
      most == ScarceMemory::plenty ? bytes <= capacity : num_bytes <= most - bytes_in_use();
  ZP_CHECK(enough, ErrorCode::unavailable,
           "allocating " + std::to_string(num_bytes) + " bytes of device memory failed" +
               device::in_named_step(),
           "the simulated device has " +
               (most == ScarceMemory::plenty ? "16 GiB" : std::to_string(most)),
           "use a smaller model");
  const std::size_t size = guard_bytes + rounded(bytes + guard_bytes);
  bool fresh;
  unsigned char* data = base_ + find_free(size, fresh) + guard_bytes;
  blocks_[data] = {bytes, size, fresh, false, false};
  return data;
}

void DeviceMemory::start(unsigned char* data) {
  Block& block = blocks_.at(data);
  const bool untouched = holds_only(block.fresh ? 0 : given_back, data - guard_bytes, block.size);
  std::memset(data - guard_bytes, guard, block.size);
  std::memset(data, 0xFF, block.num_bytes);
  block.started = true;
  ZP_CHECK(untouched, ErrorCode::internal,
           "write to unallocated or freed device memory" + device::in_named_step(),
           "on a device it may belong to another allocation",
           "order the write after the allocation and before the release");
}

void DeviceMemory::release(unsigned char* data) {
  const auto found = blocks_.find(data);
  const bool whole = found->second.reported || intact(data, found->second);
  std::memset(data - guard_bytes, given_back, found->second.size);
  std::size_t offset = static_cast<std::size_t>(data - base_) - guard_bytes;
  std::size_t size = found->second.size;
  blocks_.erase(found);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  free_[offset] = size;
  require_intact(whole);
}

bool DeviceMemory::intact(const unsigned char* data, const Block& block) {
  const unsigned char* begin = data - guard_bytes;
  return !block.started ||
         (is_guard(begin, data) && is_guard(data + block.num_bytes, begin + block.size));
}

void DeviceMemory::check_guards() {
  for (std::size_t i = std::min(blocks_.size(), most_checked); i > 0; --i) {
    auto next = blocks_.upper_bound(checked_);
    if (next == blocks_.end()) next = blocks_.begin();
    checked_ = next->first;
    next->second.reported = !intact(next->first, next->second);
    require_intact(!next->second.reported);
  }
}

}  // namespace zeroproof::cuda::sim
