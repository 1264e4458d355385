#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "cuda/device/runtime/memory.hpp"

namespace zeroproof::cuda {

/// Plain values of the host that a device reads and writes by itself; undefined at birth.
template <class T>
class PinnedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Nothing that is enqueued may use it when it goes. None at all for a count of 0.
  explicit PinnedArray(std::int64_t count) : count_(count) {
    if (count > 0) memory_.reset(static_cast<T*>(device::pinned_allocate(num_bytes())));
  }

  T* data() const { return memory_.get(); }
  std::int64_t count() const { return count_; }
  std::int64_t num_bytes() const { return count_ * static_cast<std::int64_t>(sizeof(T)); }

 private:
  struct Release {
    void operator()(T* memory) const { device::pinned_release(memory); }
  };

  std::int64_t count_;
  std::unique_ptr<T, Release> memory_;
};

}  // namespace zeroproof::cuda
