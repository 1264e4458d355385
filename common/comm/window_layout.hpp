#pragma once
// Memory layout of the blocks of a shared window (internal to the communicators).

#include <cstddef>
#include <cstdint>

namespace zeroproof {

/// A cache line: ranks that write their own blocks never write the same line.
inline constexpr std::size_t window_alignment = 64;

/// Unwritten memory reads as NaN in every float format.
inline constexpr std::byte unwritten_byte{0xff};

inline std::size_t padded_window_bytes(std::int64_t num_bytes) {
  return (static_cast<std::size_t>(num_bytes) + window_alignment - 1) / window_alignment *
         window_alignment;
}

}  // namespace zeroproof
