#pragma once
// Memory that shows misuse: born as NaN, with red zones on both sides.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "common/base/span.hpp"

namespace zeroproof {

/// Every byte is 0xFF at birth, which is a NaN in every float format here; 64 bytes of a pattern stand before
/// and after. 64-byte aligned.
class GuardedBuffer {
 public:
  static constexpr std::size_t guard_bytes = 64;

  GuardedBuffer() = default;
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : numel_(std::exchange(other.numel_, 0)), dtype_(other.dtype_), memory_(std::move(other.memory_)) {}
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    numel_ = std::exchange(other.numel_, 0);
    dtype_ = other.dtype_;
    memory_ = std::move(other.memory_);
    return *this;
  }
  GuardedBuffer(std::int64_t numel, DType dtype)
      : numel_(numel), dtype_(dtype), memory_(static_cast<std::byte*>(allocate(payload_bytes()))) {
    std::memset(memory_.get(), guard_pattern, guard_bytes);
    poison();
    std::memset(memory_.get() + guard_bytes + payload_bytes(), guard_pattern, guard_bytes);
  }

  TensorView view() const { return {data(), dtype_, numel_}; }
  void* data() const { return memory_ ? memory_.get() + guard_bytes : nullptr; }
  std::int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }

  template <class T>
  Span<T> as() const {
    return {static_cast<T*>(data()), static_cast<std::size_t>(numel_)};
  }

  /// Makes the payload NaN again.
  void poison() {
    if (memory_) std::memset(data(), 0xFF, payload_bytes());
  }

  bool guards_intact() const {
    if (!memory_) return true;
    const std::byte* after = memory_.get() + guard_bytes + payload_bytes();
    for (std::size_t i = 0; i < guard_bytes; ++i) {
      if (memory_[i] != std::byte{guard_pattern} || after[i] != std::byte{guard_pattern}) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char guard_pattern = 0xA5;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{64}); }
  };

  static void* allocate(std::size_t payload) {
    return ::operator new (payload + 2 * guard_bytes, std::align_val_t{64});
  }
  std::size_t payload_bytes() const { return static_cast<std::size_t>(numel_ * num_bytes(dtype_)); }

  std::int64_t numel_ = 0;
  DType dtype_ = DType::fp32;
  std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace zeroproof
