#pragma once

#include "verification/bench/huge_buffer.hpp"

namespace zeroproof::verification::bench {

/// A buffer of 16-bit words as bf16 or fp16, which are structs around one such word.
template <class Half>
Span<Half> as_half(const HugeBuffer<std::uint16_t>& buffer) {
  static_assert(sizeof(Half) == sizeof(std::uint16_t));
  return {reinterpret_cast<Half*>(buffer.data()), buffer.span().size()};
}

}  // namespace zeroproof::verification::bench
