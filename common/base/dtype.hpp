#pragma once
// Element types of every buffer the harness can look at.

#include <cstdint>
#include <string_view>

namespace zeroproof {

/// bfloat16: 1 sign, 8 exponent, 7 fraction bits. A bit pattern only; conversions are operations
/// (contracts/cast.hpp).
struct bf16 {
  std::uint16_t bits;
};

/// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits.
struct fp16 {
  std::uint16_t bits;
};

/// 8-bit floating point, finite flavour: 1 sign, 4 exponent, 3 fraction bits, bias 7. No infinities; the largest value
/// is 448; NaN is 0x7F or 0xFF.
struct e4m3 {
  std::uint8_t bits;
};

/// 8-bit floating point: 1 sign, 5 exponent, 2 fraction bits, bias 15. Infinities at 0x7C and 0xFC; the largest finite
/// value is 57344.
struct e5m2 {
  std::uint8_t bits;
};

enum class DType : std::uint8_t { fp32, bf16, fp16, fp64, u32, u64, e4m3, e5m2 };

constexpr std::int64_t num_bytes(DType dtype) {
  switch (dtype) {
    case DType::e4m3:
    case DType::e5m2:
      return 1;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp32:
    case DType::u32:
      return 4;
    case DType::fp64:
    case DType::u64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return "fp32";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::fp64:
      return "fp64";
    case DType::u32:
      return "u32";
    case DType::u64:
      return "u64";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
  }
  return "?";
}

}  // namespace zeroproof
