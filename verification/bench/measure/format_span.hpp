#pragma once

#include "verification/bench/measure/huge_buffer.hpp"

namespace zeroproof::verification::bench {

/// A buffer of 16-bit words as bf16 or fp16, or of bytes as e4m3 or e5m2, which are structs around one of these.
template <class Format, class Word>
Span<Format> as_format(const HugeBuffer<Word>& buffer) {
  static_assert(sizeof(Format) == sizeof(Word));
  return {reinterpret_cast<Format*>(buffer.data()), buffer.span().size()};
}

}  // namespace zeroproof::verification::bench
