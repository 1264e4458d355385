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

enum class DType : std::uint8_t { fp32, bf16, fp16, fp64, u32, u64 };

constexpr std::int64_t num_bytes(DType dtype) {
  switch (dtype) {
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
  }
  return "?";
}

}  // namespace zeroproof
