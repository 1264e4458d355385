#include "common/io/checkpoint/canonical_copy.hpp"

#include <bit>

#include "common/base/dtype.hpp"

namespace zeroproof {

void copy_canonical(Span<const float> values, Span<std::byte> target) {
  using Float = Format<float>;
  auto* const to = reinterpret_cast<Float::Bits*>(target.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<Float::Bits>(values[i]);
    to[i] = Float::is_nan(bits) ? Float::magnitude : bits;
  }
}

}  // namespace zeroproof
