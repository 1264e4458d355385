// cast_to_bf16: adds half of the last kept place, minus one unit if it is even.

#include <bit>
#include <cstdint>

#include "common/contracts/cast.hpp"

namespace zeroproof::mine {

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(source[i]);
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    target[i].bits =
        static_cast<std::uint16_t>(is_nan ? 0x7FFFU : (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  }
}

}  // namespace zeroproof::mine
