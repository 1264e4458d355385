#pragma once
// Memory that shows misuse: filled with NaN at first, with red zones on both sides.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "common/base/span.hpp"

namespace zeroproof {

/// Initial content of a buffer. `untouched` memory has no pages yet: each page is allocated on the
/// NUMA node of the thread that writes it first.
enum class BufferFill : std::uint8_t { poison, untouched };

/// Allocator of memory outside the host, and access to its bytes.
struct ForeignMemory {
  std::byte* (*allocate)(std::int64_t num_bytes);  ///< 64-byte aligned; num_bytes > 0
  void (*release)(std::byte* memory) noexcept;
  void (*fill)(void* memory, unsigned char byte, std::int64_t num_bytes);
  void (*read)(void* host, const void* memory,
               std::int64_t num_bytes);  ///< content after all enqueued work
};

/// Every byte is 0xFF at first, which is a NaN in every float format here (unless the buffer is
/// `untouched`); 64 bytes of a pattern precede and follow the payload. 64-byte aligned. Large
/// buffers request pages of 2 MiB: a step that streams through gigabytes would otherwise spend its
/// time on address translation.
class GuardedBuffer {
 public:
  static constexpr std::size_t guard_bytes = 64;

  GuardedBuffer() = default;
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : numel_(std::exchange(other.numel_, 0)),
        dtype_(other.dtype_),
        foreign_(other.foreign_),
        memory_(std::move(other.memory_)) {}
  GuardedBuffer& operator=(GuardedBuffer&& other) noexcept {
    numel_ = std::exchange(other.numel_, 0);
    dtype_ = other.dtype_;
    foreign_ = other.foreign_;
    memory_ = std::move(other.memory_);
    return *this;
  }
  /// foreign: allocator of the memory; null: host memory.
  GuardedBuffer(std::int64_t numel, DType dtype, BufferFill fill = BufferFill::poison,
                const ForeignMemory* foreign = nullptr)
      : numel_(numel),
        dtype_(dtype),
        foreign_(foreign),
        memory_(allocate(payload_bytes(), foreign)) {
    fill_in(fill);
  }

  /// The same in existing memory: footprint() bytes, 64-byte aligned, which must outlive this
  /// object.
  GuardedBuffer(std::byte* memory, std::int64_t numel, DType dtype, BufferFill fill,
                const ForeignMemory* foreign = nullptr)
      : numel_(numel), dtype_(dtype), foreign_(foreign), memory_(memory, Free::nothing()) {
    fill_in(fill);
  }

  /// Bytes of a buffer with its red zones, a multiple of its alignment.
  static std::int64_t footprint(std::int64_t numel, DType dtype) {
    constexpr auto unit = static_cast<std::int64_t>(small_alignment);
    const std::int64_t bytes =
        numel * num_bytes(dtype) + 2 * static_cast<std::int64_t>(guard_bytes);
    return (bytes + unit - 1) / unit * unit;
  }

  TensorView view() const { return {data(), dtype_, numel_}; }
  void* data() const { return memory_ ? memory_.get() + guard_bytes : nullptr; }
  std::int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }

  template <class T>
  Span<T> as() const {
    return {static_cast<T*>(data()), static_cast<std::size_t>(numel_)};
  }

  /// Fills the payload with NaN again.
  void poison() {
    if (memory_) set(data(), 0xFF, payload_bytes());
  }

  bool guards_intact() const {
    return !memory_ ||
           (is_guard(memory_.get()) && is_guard(memory_.get() + guard_bytes + payload_bytes()));
  }

 private:
  static constexpr unsigned char guard_pattern = 0xA5;
  static constexpr std::size_t small_alignment = 64;
  static constexpr std::size_t huge_page = std::size_t{2} << 20;

  class Free {
   public:
    Free() : alignment_(std::align_val_t{small_alignment}) {}
    explicit Free(std::align_val_t alignment) : alignment_(alignment) {}
    explicit Free(const ForeignMemory* foreign) : alignment_(), foreign_(foreign) {}
    /// For memory that another object owns.
    static Free nothing() {
      Free free;
      free.owns_ = false;
      return free;
    }
    void operator()(std::byte* memory) const {
      if (foreign_ != nullptr) return foreign_->release(memory);
      if (owns_) ::operator delete(memory, alignment_);
    }

   private:
    std::align_val_t alignment_;
    const ForeignMemory* foreign_ = nullptr;
    bool owns_ = true;
  };
  using Memory = std::unique_ptr<std::byte[], Free>;

  static Memory allocate(std::size_t payload, const ForeignMemory* foreign) {
    const std::size_t bytes = payload + 2 * guard_bytes;
    if (foreign != nullptr)
      return Memory(foreign->allocate(static_cast<std::int64_t>(bytes)), Free{foreign});
    const std::align_val_t alignment{bytes < huge_page ? small_alignment : huge_page};
    Memory memory(static_cast<std::byte*>(::operator new(bytes, alignment)), Free{alignment});
#if defined(MADV_HUGEPAGE)
    // Advice only: a system without such pages, or with none left, uses small ones.
    if (bytes >= huge_page) ::madvise(memory.get(), bytes / huge_page * huge_page, MADV_HUGEPAGE);
#endif
    return memory;
  }
  void fill_in(BufferFill fill) {
    set(memory_.get(), guard_pattern, guard_bytes);
    if (fill == BufferFill::poison) poison();
    set(memory_.get() + guard_bytes + payload_bytes(), guard_pattern, guard_bytes);
  }
  void set(void* memory, unsigned char byte, std::size_t bytes) const {
    if (bytes == 0) return;
    if (foreign_ != nullptr) return foreign_->fill(memory, byte, static_cast<std::int64_t>(bytes));
    std::memset(memory, byte, bytes);
  }
  bool is_guard(const std::byte* zone) const {
    std::array<std::byte, guard_bytes> seen;
    if (foreign_ != nullptr) {
      foreign_->read(seen.data(), zone, guard_bytes);
    } else {
      std::memcpy(seen.data(), zone, guard_bytes);
    }
    return std::ranges::all_of(seen, [](std::byte one) { return one == std::byte{guard_pattern}; });
  }
  std::size_t payload_bytes() const { return static_cast<std::size_t>(numel_ * num_bytes(dtype_)); }

  std::int64_t numel_ = 0;
  DType dtype_ = DType::fp32;
  const ForeignMemory* foreign_ = nullptr;
  Memory memory_;
};

}  // namespace zeroproof
