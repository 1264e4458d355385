#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "cuda/device/runtime/memory.hpp"

namespace zeroproof::cuda {

/// Uninitialized plain values in one kind of memory, freed by the rules of runtime/memory.hpp.
template <class T, void* (*allocate)(std::int64_t), void (*release)(void*) noexcept>
class RawArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// No allocation for a count of 0.
  explicit RawArray(std::int64_t count) : count_(count) {
    if (count > 0) memory_.reset(static_cast<T*>(allocate(num_bytes())));
  }

  T* data() const { return memory_.get(); }
  std::int64_t count() const { return count_; }
  std::int64_t num_bytes() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  struct Release {
    void operator()(T* memory) const { release(memory); }
  };

  std::int64_t count_;
  std::unique_ptr<T, Release> memory_;
};

/// Host memory that a device can read and write.
template <class T>
using PinnedArray = RawArray<T, device::pinned_allocate, device::pinned_release>;

/// Memory of the current device and stream, which the host accesses only by copies.
template <class T>
using DeviceArray = RawArray<T, device::device_allocate, device::device_release>;

}  // namespace zeroproof::cuda
