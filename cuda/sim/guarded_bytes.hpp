#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace zeroproof::cuda::sim {

/// Memory as a device hands it out: it holds nothing useful, and what lies around it belongs to somebody else.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t num_bytes)
      : num_bytes_(num_bytes), storage_(num_bytes + 2 * guard_bytes + 256) {
    const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(storage_.data() + guard_bytes) % 256;
    start_ = guard_bytes + (256 - misplaced) % 256;
    std::memset(storage_.data(), guard, storage_.size());
    poison();
  }

  unsigned char* data() { return storage_.data() + start_; }
  void poison() { std::memset(data(), 0xFF, num_bytes_); }

  bool guards_intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      const bool inside = i >= start_ && i < start_ + num_bytes_;
      if (!inside && storage_[i] != guard) return false;
      if (inside) i = start_ + num_bytes_ - 1;
    }
    return true;
  }

 private:
  static constexpr std::size_t guard_bytes = 64;
  static constexpr unsigned char guard = 0xA7;

  std::size_t num_bytes_;
  std::vector<unsigned char> storage_;
  std::size_t start_ = 0;
};

}  // namespace zeroproof::cuda::sim
