#pragma once
// Page-aligned memory for large direct writes, which cost time for every page of it.

#include <cstddef>
#include <memory>

#include "common/base/span.hpp"

namespace zeroproof {

/// Uninitialized bytes; at a page boundary, and in huge pages if large and supported by the system.
class PageBuffer {
 public:
  /// At least so many bytes. The content is lost if the buffer has to grow. Errors: std::bad_alloc.
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
