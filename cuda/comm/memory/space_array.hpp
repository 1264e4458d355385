#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "cuda/comm/memory/memory_space.hpp"

namespace zeroproof::cuda {

/// A few plain values in a memory space that the host sometimes writes and reads; not counted by a
/// ledger.
template <class T>
class SpaceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Every byte is initially 0xFF.
  SpaceArray(const MemorySpace& space, std::int64_t count)
      : space_(space),
        count_(count),
        memory_(bytes(count), DType::e4m3, BufferFill::poison, space.memory) {}
  /// Contains these values.
  SpaceArray(const MemorySpace& space, Span<const T> values) : SpaceArray(space, numel(values)) {
    write(values);
  }

  /// Null if it is empty.
  T* data() const { return count_ == 0 ? nullptr : static_cast<T*>(memory_.data()); }
  std::int64_t count() const { return count_; }

  /// values: at most count() of them, from the first on; may be reused immediately. Enqueued like
  /// everything else.
  void write(Span<const T> values) const {
    space_.from_host(memory_.data(), values.data(), bytes(numel(values)));
  }
  void write(const T& value) const { write({&value, 1}); }

  /// Waits for preceding work.
  void read(Span<T> values) const {
    space_.to_host(values.data(), memory_.data(), bytes(numel(values)));
    space_.wait();
  }
  T read() const {
    T value;
    read({&value, 1});
    return value;
  }

  void fill(unsigned char byte) const { space_.fill(memory_.data(), byte, bytes(count_)); }

 private:
  static std::int64_t bytes(std::int64_t count) {
    return count * static_cast<std::int64_t>(sizeof(T));
  }

  const MemorySpace& space_;
  std::int64_t count_;
  GuardedBuffer memory_;
};

}  // namespace zeroproof::cuda
