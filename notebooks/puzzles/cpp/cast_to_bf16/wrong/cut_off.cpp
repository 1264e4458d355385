// caught: first at  target[0] | got 0x4c72 (6.344e+07)  want 0x4c73 (6.37e+07)

#include <bit>
#include <cstdint>

#include "common/contracts/cast.hpp"

namespace zeroproof::mine {

void cast_to_bf16(const Exec&, Span<const float> source, Span<bf16> target) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(source[i]);
    const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    target[i].bits = static_cast<std::uint16_t>(is_nan ? 0x7FFFU : bits >> 16);
  }
}

}  // namespace zeroproof::mine
