#pragma once
// One value to and from an 8-bit format (R8), for the casts and the block scales.

#include <cstdint>

#include "common/contracts/cast.hpp"

namespace zeroproof::reference {

/// An 8-bit format without its sign. Magnitude code k is a multiple of 2^(exponent -
/// fraction_bits): below 2^lowest_exponent that exponent is lowest_exponent (subnormals), above it
/// is the value's own.
struct Fp8Format {
  int fraction_bits;
  int lowest_exponent;  // 1 - bias
  int largest;          // magnitude code of the largest finite value
  int infinity;         // -1: the format has none
};

inline constexpr Fp8Format e4m3_format{3, -6, 0x7E, -1};
inline constexpr Fp8Format e5m2_format{2, -14, 0x7B, 0x7C};

/// Rounds to nearest even; `overflow` decides the result of too large values.
std::uint8_t to_fp8(float value, const Fp8Format& format, Overflow overflow);

/// Decodes a code by the definition of the format; exact.
float from_fp8(std::uint8_t bits, const Fp8Format& format);

/// The exponent of a block scale, rounded up.
std::uint8_t to_e8m0(float value);

/// 2^(code - 127), exact.
float from_e8m0(std::uint8_t code);

}  // namespace zeroproof::reference
