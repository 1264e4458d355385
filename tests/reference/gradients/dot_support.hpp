#pragma once
// Dot products bit by bit: slow, and without limbs.

#include <algorithm>
#include <array>

#include "tests/reference/support.hpp"

namespace zeroproof::tests {

/// Bits of products, counted one by one: bits[p] counts signed units of 2^(p - 298).
class CountedBits {
 public:
  void add(float a, float b) {
    int ea = 0;
    int eb = 0;
    const auto na = static_cast<std::int64_t>(std::ldexp(std::frexp(a, &ea), 24));
    const auto nb = static_cast<std::int64_t>(std::ldexp(std::frexp(b, &eb), 24));
    std::int64_t product = na * nb;  // below 2^48
    if (product == 0) return;
    const int sign = product < 0 ? -1 : 1;
    int position = ea + eb - 48 + 298;
    for (product *= sign; product != 0; product /= 2, ++position) {
      if (product % 2 != 0) bits_.at(position) += sign;
    }
  }

  /// Propagates carries, and rounds the remaining bits as on paper.
  double rounded() const {
    std::array<std::int64_t, size> digits = bits_;
    if (!carry(digits)) {  // below zero: the digits of the negated number
      for (std::size_t p = 0; p < size; ++p) digits[p] = -bits_[p];
      carry(digits);
      return -round(digits);
    }
    return round(digits);
  }

 private:
  static constexpr std::size_t size = 700;

  /// Every digit becomes 0 or 1; returns false if the number is negative, because then a carry
  /// remains.
  static bool carry(std::array<std::int64_t, size>& digits) {
    std::int64_t over = 0;
    for (std::int64_t& digit : digits) {
      const std::int64_t value = digit + over;
      digit = value & 1;
      over = (value - digit) / 2;
    }
    return over == 0;
  }

  static double round(const std::array<std::int64_t, size>& digits) {
    std::size_t top = size;
    while (top > 0 && digits[top - 1] == 0) --top;
    double kept = 0;  // the upper 53 bits, exactly
    std::size_t p = top;
    for (int i = 0; i < 53 && p > 0; ++i) {
      --p;
      kept += std::ldexp(static_cast<double>(digits[p]), static_cast<int>(p));
    }
    if (p == 0) return std::ldexp(kept, -298);
    const double half = std::ldexp(0.5, static_cast<int>(p));  // of the last kept bit
    const bool odd = digits[p] == 1;
    --p;
    const bool above = digits[p] == 1;
    const bool sticky = std::any_of(digits.begin(), digits.begin() + static_cast<std::ptrdiff_t>(p),
                                    [](std::int64_t digit) { return digit != 0; });
    return std::ldexp(above && (sticky || odd) ? kept + 2 * half : kept, -298);
  }

  std::array<std::int64_t, size> bits_{};
};

inline double exact_dot(const std::vector<float>& a, const std::vector<float>& b) {
  CountedBits bits;
  for (std::size_t i = 0; i < a.size(); ++i) bits.add(a[i], b[i]);
  return bits.rounded();
}

}  // namespace zeroproof::tests
