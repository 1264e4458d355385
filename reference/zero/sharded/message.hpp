#pragma once
// Bytes that one rank sends to another.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::reference {

/// Elements constructed without a value are not initialized: a buffer for bytes to receive or to
/// copy would otherwise be filled with zeros first.
template <class T>
struct UnfilledAllocator : std::allocator<T> {
  template <class Other>
  struct rebind {
    using other = UnfilledAllocator<Other>;
  };

  template <class Element>
  void construct(Element* place) noexcept {
    ::new (static_cast<void*>(place)) Element;
  }
  template <class Element, class... Arguments>
  void construct(Element* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) Element(std::forward<Arguments>(arguments)...);
  }
};

using Message = std::vector<std::byte, UnfilledAllocator<std::byte>>;

inline void append(Message& message, Span<const std::byte> bytes) {
  const std::size_t begin = message.size();
  message.resize(begin + bytes.size());
  std::ranges::copy(bytes, message.begin() + static_cast<std::ptrdiff_t>(begin));
}

}  // namespace zeroproof::reference
