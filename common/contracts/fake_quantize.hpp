#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/layout/block_grid.hpp"

namespace zeroproof {

/// Kind of codes: integers, or an 8-bit format.
enum class FakeFormat : std::uint8_t { integer, e4m3, e5m2 };

/// All arguments of a fake quantization but numbers.
struct FakeQuantization {
  BlockGrid grid;
  FakeFormat format = FakeFormat::integer;
  int bits = 8;        ///< 2..16, of integers
  bool narrow = true;  ///< of integers: codes from -(2^(bits-1) - 1), else one lower

  bool operator==(const FakeQuantization&) const = default;
};

/// An amax from which on down all codes are 0 (integers), or which is replaced by 1 (fp8).
inline constexpr float smallest_amax = 0x1p-24F;

/// Quantizes and dequantizes a part of a tensor.
///
/// Shapes   values, target: [numel], elements first .. first + numel - 1 of the tensor; amax: [num_blocks] of the grid.
///          values and target are the same buffer, or do not overlap.
/// Units    amax: bits of a magnitude as BlockAmaxFn writes them; the fp32 value with these bits (a pattern above
///          0x7F800000 is a NaN, also with a sign). target: in the unit of values.
/// Order    fp32, one rounding per operation, a = amax of the block.
///          integer: top = 2^(bits-1) - 1; low = -top (narrow), else -top - 1.
///            a <= 2^-24: +0, a NaN stays a NaN. Otherwise g = top / a; y = x * g; r = y to the nearest integer, ties
///            to even, with the sign of y; r > top: top; r < low: low; target = r / g.
///          e4m3, e5m2: top = 448, 57344. a <= 2^-24: a = 1. g = top / a; y = x * g; c = y cast as in R8, saturate;
///            h = 1 / g; target = c widened * h.
/// Exact    bitwise. Zeros keep their sign (but with an integer's a <= 2^-24).
/// Special  a infinite: g = +0, integers are NaN (0 / 0), h infinite and fp8 a NaN (0 * infinity); a NaN: NaN.
/// Errors   invalid_argument if the grid is not legal, the part reaches beyond it, amax has another number of elements
///          than there are blocks, the numels differ, or bits is out of range (whatever the format); nothing is written
///          then.
/// Contract R26, R22, R8. Source: [Calib:int], [Calib:fp8].
using FakeQuantizeFn = void(const Exec&, const FakeQuantization&, std::int64_t first,
                            Span<const float> values, Span<const std::uint32_t> amax,
                            Span<float> target);

/// The codes of integers of at most 8 bits: r of FakeQuantizeFn, 0 where a <= 2^-24, 0 for a NaN y.
///
/// Shapes   values: [numel]; codes: [numel], two's complement; amax: [num_blocks].
/// Exact    integer. Where amax is above 2^-24 and finite and values are no NaN, code / g has the value of
///          FakeQuantizeFn (and +0 for its -0).
/// Errors   as FakeQuantizeFn, and if the format is not integer or bits is above 8.
/// Contract R26.
using QuantizeIntegerFn = void(const Exec&, const FakeQuantization&, std::int64_t first,
                               Span<const float> values, Span<const std::uint32_t> amax,
                               Span<std::int8_t> codes);

}  // namespace zeroproof
