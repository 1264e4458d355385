#pragma once
// Memory for measurements: aligned to 2 MiB and backed by 2 MiB pages where the kernel grants them.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "common/base/span.hpp"

namespace zeroproof::verification::bench {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// [numel] of T, not initialised: the thread that writes an element first decides its memory controller.
template <class T>
class HugeBuffer {
 public:
  explicit HugeBuffer(std::int64_t numel) : numel_(static_cast<std::size_t>(numel)) {
    // Whole pages, so that the kernel need not split the last one.
    const std::size_t bytes =
        (numel_ * sizeof(T) + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    memory_.reset(static_cast<T*>(::operator new (bytes, std::align_val_t{huge_page_bytes})));
#if defined(MADV_HUGEPAGE)
    ::madvise(memory_.get(), bytes,
              MADV_HUGEPAGE);  // a request: the record has the share of memory that got them
#endif
  }

  Span<T> span() const { return {memory_.get(), numel_}; }
  T* data() const { return memory_.get(); }
  std::size_t num_bytes() const { return numel_ * sizeof(T); }

 private:
  struct Free {
    void operator()(T* memory) const {
      ::operator delete (memory, std::align_val_t{huge_page_bytes});
    }
  };
  std::size_t numel_;
  std::unique_ptr<T, Free> memory_;
};

/// A buffer of 16-bit words as bf16 or fp16, or of bytes as e4m3 or e5m2, which are structs around one of these.
template <class Format, class Word>
Span<Format> as_format(const HugeBuffer<Word>& buffer) {
  static_assert(sizeof(Format) == sizeof(Word));
  return {reinterpret_cast<Format*>(buffer.data()), buffer.span().size()};
}

}  // namespace zeroproof::verification::bench
