#include <algorithm>

#include "verification/cases/result.hpp"
#include "verification/compare/compare.hpp"

namespace zeroproof::verification {

void UlpHistogram::add(const TensorView& reference, const TensorView& candidate,
                       std::int64_t first_index) {
  const bool has_sign = visit_format(reference.dtype, [](auto format) {
    using Format = decltype(format);
    if constexpr (Format::is_float)
      return (Format::magnitude >> (8 * sizeof(typename Format::Bits) - 1)) == 0;
    return false;
  });
  if (!has_sign) return;  // integers, and exponents
  const int sign_bit = static_cast<int>(8 * num_bytes(reference.dtype)) - 1;
  const std::uint64_t magnitude_mask = (std::uint64_t{1} << sign_bit) - 1;
  for (std::int64_t i = 0; i < std::min(reference.numel, candidate.numel); ++i) {
    const std::uint64_t a = element_bits(reference, i);
    const std::uint64_t b = element_bits(candidate, i);
    const bool nan_a = is_nan_bits(reference.dtype, a);
    const bool nan_b = is_nan_bits(reference.dtype, b);
    if (a == b || (nan_a && nan_b)) {
      ++counts[0];
    } else if (nan_a || nan_b || (a ^ b) >> sign_bit != 0) {
      ++sign_or_nan;
    } else {  // bit patterns of one sign are ordered like the values
      const std::uint64_t x = a & magnitude_mask;
      const std::uint64_t y = b & magnitude_mask;
      const std::uint64_t distance = std::max(x, y) - std::min(x, y);
      ++counts[distance == 1 ? 1 : distance == 2 ? 2 : distance < 16 ? 3 : 4];
      if (distance > largest) {
        largest = distance;
        largest_index = first_index + i;
      }
    }
  }
}

std::string to_string(const UlpHistogram& h) {
  constexpr std::array<const char*, 5> labels = {"0", "1", "2", "3-15", "16+"};
  std::string text;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    text += std::string(labels[i]) + ": " + std::to_string(h.counts[i]) + "  ";
  }
  return text + "sign or NaN: " + std::to_string(h.sign_or_nan) + "  largest " +
         std::to_string(h.largest);
}

}  // namespace zeroproof::verification
