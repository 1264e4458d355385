#pragma once
// Element types of every buffer that the harness compares.

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

/// 8-bit floating point, finite variant: 1 sign, 4 exponent, 3 fraction bits, bias 7. No infinities; the largest value
/// is 448; NaN is 0x7F or 0xFF.
struct e4m3 {
  std::uint8_t bits;
};

/// 8-bit floating point: 1 sign, 5 exponent, 2 fraction bits, bias 15. Infinities at 0x7C and 0xFC; the largest finite
/// value is 57344.
struct e5m2 {
  std::uint8_t bits;
};

/// The scale of a block, 8 bits of exponent and nothing else: 2^(bits - 127). No sign, no zero, no infinity; NaN is
/// 0xFF.
struct e8m0 {
  std::uint8_t bits;
};

enum class DType : std::uint8_t { fp32, bf16, fp16, fp64, u32, u64, e4m3, e5m2, u16, e8m0 };

/// Properties of an element type: one row for every DType.
template <class T>
struct Format;

/// magnitude: every bit but the sign, and the canonical NaN (R9); infinity: the largest pattern
/// that is not NaN; digits: decimal digits that distinguish any two values.
template <class T, class Word, Word largest, int significant>
struct FloatFormat {
  using type = T;
  using Bits = Word;
  static constexpr bool is_float = true;
  static constexpr Word magnitude = static_cast<Word>(~Word{0}) >> 1;
  static constexpr Word infinity = largest;
  static constexpr int digits = significant;
  static bool is_nan(Word bits) { return (bits & magnitude) > infinity; }
};

template <class T>
struct IntegerFormat {
  using type = T;
  using Bits = T;
  static constexpr bool is_float = false;
};

template <>
struct Format<float> : FloatFormat<float, std::uint32_t, 0x7F800000U, 9> {
  static constexpr std::string_view name = "fp32";
};
template <>
struct Format<bf16> : FloatFormat<bf16, std::uint16_t, 0x7F80U, 4> {
  static constexpr std::string_view name = "bf16";
};
template <>
struct Format<fp16> : FloatFormat<fp16, std::uint16_t, 0x7C00U, 5> {
  static constexpr std::string_view name = "fp16";
};
template <>
struct Format<double> : FloatFormat<double, std::uint64_t, 0x7FF0000000000000U, 17> {
  static constexpr std::string_view name = "fp64";
};
template <>
struct Format<std::uint32_t> : IntegerFormat<std::uint32_t> {
  static constexpr std::string_view name = "u32";
};
template <>
struct Format<std::uint64_t> : IntegerFormat<std::uint64_t> {
  static constexpr std::string_view name = "u64";
};
template <>
struct Format<e4m3> : FloatFormat<e4m3, std::uint8_t, 0x7EU, 4> {
  static constexpr std::string_view name = "e4m3";
};
template <>
struct Format<e5m2> : FloatFormat<e5m2, std::uint8_t, 0x7CU, 4> {
  static constexpr std::string_view name = "e5m2";
};

template <>
struct Format<std::uint16_t> : IntegerFormat<std::uint16_t> {
  static constexpr std::string_view name = "u16";
};

/// No sign bit: every bit is magnitude.
template <>
struct Format<e8m0> : FloatFormat<e8m0, std::uint8_t, 0xFEU, 3> {
  static constexpr std::string_view name = "e8m0";
  static constexpr std::uint8_t magnitude = 0xFFU;
  static bool is_nan(std::uint8_t bits) { return bits == magnitude; }
};

/// Calls f(Format<T>{}) with the element type: the only function that maps a DType to a type.
template <class F>
constexpr decltype(auto) visit_format(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bf16:
      return f(Format<bf16>{});
    case DType::fp16:
      return f(Format<fp16>{});
    case DType::fp64:
      return f(Format<double>{});
    case DType::u32:
      return f(Format<std::uint32_t>{});
    case DType::u64:
      return f(Format<std::uint64_t>{});
    case DType::e4m3:
      return f(Format<e4m3>{});
    case DType::e5m2:
      return f(Format<e5m2>{});
    case DType::u16:
      return f(Format<std::uint16_t>{});
    case DType::e8m0:
      return f(Format<e8m0>{});
    case DType::fp32:
      break;
  }
  return f(Format<float>{});
}

constexpr std::int64_t num_bytes(DType dtype) {
  return visit_format(dtype, [](auto format) {
    return static_cast<std::int64_t>(sizeof(typename decltype(format)::type));
  });
}

constexpr std::string_view name(DType dtype) {
  return visit_format(dtype, [](auto format) { return decltype(format)::name; });
}

/// Formats of gradients and parameters.
constexpr bool is_param_format(DType dtype) {
  return dtype == DType::fp32 || dtype == DType::bf16 || dtype == DType::fp16;
}

/// The same for formats of gradients and parameters: f is called for fp32, bf16 and fp16 only, and
/// any other DType is treated as fp32, so check is_param_format() first.
template <class F>
constexpr decltype(auto) visit_param_format(DType dtype, F&& f) {
  if (dtype == DType::bf16) return f(Format<bf16>{});
  if (dtype == DType::fp16) return f(Format<fp16>{});
  return f(Format<float>{});
}

}  // namespace zeroproof
