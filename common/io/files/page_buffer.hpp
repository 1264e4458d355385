#pragma once
// Memory that large writes past the page cache begin in: they pay for every page of it.

#include <cstddef>
#include <memory>

#include "common/base/span.hpp"

namespace zeroproof {

/// Room for bytes that have no values at first; at a page, and in huge pages where it is large and the system has them.
class PageBuffer {
 public:
  /// At least so many bytes. What was in them is gone, unless there was room before. Errors: std::bad_alloc.
  void reserve(std::size_t num_bytes);

  Span<std::byte> bytes() { return {bytes_.get(), num_bytes_}; }
  Span<const std::byte> bytes() const { return {bytes_.get(), num_bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t num_bytes_ = 0;
};

}  // namespace zeroproof
