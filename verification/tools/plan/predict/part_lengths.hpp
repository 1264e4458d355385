#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace zeroproof {

/// Offset of the next part in a message buffer after one of this many bytes: every part begins at a
/// multiple of 16 bytes.
constexpr std::int64_t next_part(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Lengths of several parts, without a list of them: a sum over the parts of anything that grows by
/// the same amount for every 16 elements depends on these alone.
struct PartLengths {
  std::int64_t numel = 0;                       ///< of all parts
  std::array<std::int64_t, 16> by_remainder{};  ///< parts with so many elements modulo 16, if any

  void add(std::int64_t elements, std::int64_t parts = 1) {
    numel += elements * parts;
    if (elements % 16 != 0) by_remainder[static_cast<std::size_t>(elements % 16)] += parts;
  }

  /// The sum of value(elements) over all parts; value(0) must be 0.
  template <class Value>
  std::int64_t sum(const Value& value) const {
    std::int64_t whole = numel, total = 0;
    for (std::int64_t rest = 1; rest < 16; ++rest) {
      const std::int64_t parts = by_remainder[static_cast<std::size_t>(rest)];
      whole -= parts * rest;
      total += parts * value(rest);
    }
    return total + whole / 16 * value(16);
  }

  /// Memory of all parts in one message buffer, so many bytes an element.
  std::int64_t packed_bytes(std::int64_t width) const {
    return sum([&](std::int64_t elements) { return next_part(width * elements); });
  }

  bool operator==(const PartLengths&) const = default;
};

}  // namespace zeroproof
