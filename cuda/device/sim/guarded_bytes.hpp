#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace zeroproof::cuda::sim {

/// Memory as a device allocates it: with undefined content, between memory of other owners.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t num_bytes)
      : num_bytes_(num_bytes), storage_(num_bytes + 2 * guard_bytes + 256) {
    const std::size_t misplaced =
        reinterpret_cast<std::uintptr_t>(storage_.data() + guard_bytes) % 256;
    start_ = guard_bytes + (256 - misplaced) % 256;
    std::memset(storage_.data(), guard, storage_.size());
    poison();
  }

  unsigned char* data() { return storage_.data() + start_; }
  void poison() { std::memset(data(), 0xFF, num_bytes_); }

  bool guards_intact() const {
    const auto is_guard = [](unsigned char byte) { return byte == guard; };
    const auto inside = storage_.begin() + static_cast<std::ptrdiff_t>(start_);
    return std::all_of(storage_.begin(), inside, is_guard) &&
           std::all_of(inside + static_cast<std::ptrdiff_t>(num_bytes_), storage_.end(), is_guard);
  }

 private:
  static constexpr std::size_t guard_bytes = 64;
  static constexpr unsigned char guard = 0xA7;

  std::size_t num_bytes_;
  std::vector<unsigned char> storage_;
  std::size_t start_ = 0;
};

}  // namespace zeroproof::cuda::sim
