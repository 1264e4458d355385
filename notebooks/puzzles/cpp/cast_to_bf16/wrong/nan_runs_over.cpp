// caught: first at  target[2] | source 0xff800001 (-nan) | they hold infinity

#include <bit>
#include <cstdint>

#include "common/contracts/cast.hpp"

namespace zeroproof::mine {

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(source[i]);
    target[i].bits = static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  }
}

}  // namespace zeroproof::mine
