#include "common/io/files/page_buffer.hpp"

#include <sys/mman.h>

#include <new>

namespace zeroproof {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

}  // namespace

void PageBuffer::Free::operator()(std::byte* bytes) const {
  ::operator delete(bytes, std::align_val_t(huge_page));
}

void PageBuffer::reserve(std::size_t num_bytes) {
  if (num_bytes <= num_bytes_) return;
  num_bytes_ = 0;
  bytes_.reset();  // frees it before the new allocation
  const std::size_t whole = (num_bytes + huge_page - 1) / huge_page * huge_page;
  bytes_.reset(static_cast<std::byte*>(::operator new(whole, std::align_val_t(huge_page))));
#if defined(MADV_HUGEPAGE)
  ::madvise(bytes_.get(), whole, MADV_HUGEPAGE);  // advice only: without such pages it is slower
#endif
  num_bytes_ = whole;
}

}  // namespace zeroproof
