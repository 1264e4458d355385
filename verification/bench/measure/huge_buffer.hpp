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

/// [numel] of T, not initialised: who writes an element first decides which memory controller it lives on.
template <class T>
class HugeBuffer {
 public:
  explicit HugeBuffer(std::int64_t numel) : numel_(static_cast<std::size_t>(numel)) {
    // Whole pages, so that the kernel need not split the last one.
    const std::size_t bytes = (numel_ * sizeof(T) + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    memory_.reset(static_cast<T*>(::operator new (bytes, std::align_val_t{huge_page_bytes})));
#if defined(MADV_HUGEPAGE)
    ::madvise(memory_.get(), bytes, MADV_HUGEPAGE);  // a wish: the record says how much of it came true
#endif
  }

  Span<T> span() const { return {memory_.get(), numel_}; }
  T* data() const { return memory_.get(); }
  std::size_t num_bytes() const { return numel_ * sizeof(T); }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete (memory, std::align_val_t{huge_page_bytes}); }
  };
  std::size_t numel_;
  std::unique_ptr<T, Free> memory_;
};

}  // namespace zeroproof::verification::bench
