#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// fp32 to a 16-bit format.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Order    one rounding per element, to nearest, ties to even.
/// Exact    bitwise. Subnormals are kept; too large becomes infinity; NaN stays NaN (payload free, R9).
/// Errors   invalid_argument if the numels differ.
/// Contract R8. Reason for a master: [MP:master].
using CastToBf16Fn = void(const Exec&, Span<const float> source, Span<bf16> target);
using CastToFp16Fn = void(const Exec&, Span<const float> source, Span<fp16> target);

/// fp32 to an 8-bit format.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Order    one rounding per element, to nearest, ties to even.
/// Exact    bitwise. Subnormals are kept; everything larger than the largest finite value, infinity included,
///          becomes that value with its sign (saturation: 448 for e4m3, 57344 for e5m2); NaN stays NaN. -0 stays
///          -0.
/// Errors   invalid_argument if the numels differ.
/// Contract R8. Source: the E4M3 (finite, "fn") and E5M2 formats of [FP8:formats]; their limits:
///          [FP8:saturate].
using CastToE4m3Fn = void(const Exec&, Span<const float> source, Span<e4m3> target);
using CastToE5m2Fn = void(const Exec&, Span<const float> source, Span<e5m2> target);

/// Result for magnitudes that round above the largest finite value of an 8-bit format, and for
/// infinities.
enum class Overflow : std::uint8_t {
  saturate,  ///< that largest finite value, with the sign: the casts above
  nonfinite  ///< infinity with the sign in e5m2; NaN in e4m3, which has no infinity
};

/// The same without saturation.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Order    one rounding per element, to nearest, ties to even, as if the exponent had no upper
///          limit: a result of at most the largest finite value is the same as in the casts above;
///          from 464 up, 464 itself excluded, e4m3 is NaN; from 61440 up, 61440 included, e5m2 is
///          infinite.
/// Exact    bitwise. Infinity is NaN (e4m3) or infinity (e5m2); NaN stays NaN.
/// Errors   invalid_argument if the numels differ.
/// Contract R8. Source: [FP8:saturate].
using NonfiniteCastToE4m3Fn = void(const Exec&, Span<const float> source, Span<e4m3> target);
using NonfiniteCastToE5m2Fn = void(const Exec&, Span<const float> source, Span<e5m2> target);

/// fp32 to the exponent of a block scale, rounded up, so that the scale is not too small.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Order    the smallest code c of 0..254 with |x| <= 2^(c - 127); 254 if there is none. The sign is ignored.
/// Exact    bitwise. Both zeros and everything up to 2^-127 are 0, the other subnormals 1; above 2^127 and infinity:
///          254; NaN: 255.
/// Errors   invalid_argument if the numels differ.
/// Contract R8. Source: [FP8:e8m0].
using CastToE8m0Fn = void(const Exec&, Span<const float> source, Span<e8m0> target);

/// Exact: 2^(c - 127), which is a subnormal fp32 for code 0; 255 is NaN.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Errors   invalid_argument if the numels differ.
/// Contract R8.
using WidenE8m0Fn = void(const Exec&, Span<const e8m0> source, Span<float> target);

/// A 16-bit or 8-bit format to fp32; always exact. e5m2 has infinities (they are widened, though no cast makes
/// them), e4m3 has none; both have NaN.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Errors   invalid_argument if the numels differ.
/// Contract R8.
using WidenBf16Fn = void(const Exec&, Span<const bf16> source, Span<float> target);
using WidenFp16Fn = void(const Exec&, Span<const fp16> source, Span<float> target);
using WidenE4m3Fn = void(const Exec&, Span<const e4m3> source, Span<float> target);
using WidenE5m2Fn = void(const Exec&, Span<const e5m2> source, Span<float> target);

/// Random words of a stochastic rounding (R15).
struct RoundingDraw {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< the tensor's applied-step count; its low 32 bits enter the counter
  std::uint64_t first_index = 0;  ///< global flat index of source[0]
};

/// Stream number of stochastic rounding in R15; other uses of the generator have other numbers.
inline constexpr std::uint32_t stochastic_rounding_stream = 0x53520001;

/// fp32 to bf16, rounded up or down at random, so that the expected value is the value itself.
///
/// Shapes   source, target: [numel], numel >= 0; the buffers do not overlap.
/// Order    for element i with bits b: w = the word of global index first_index + i (R15);
///          target bits = (b + (w >> 16)) >> 16, the addition in 32 bits. Zero low half of b: exact, unchanged.
/// Exact    drawn: bitwise, given the draw.
/// Special  NaN becomes NaN; infinities stay. A value above the largest finite bf16 may become infinity.
/// Errors   invalid_argument if the numels differ.
/// Contract R8, R15. Source: [SR:unbiased].
using StochasticCastToBf16Fn = void(const Exec&, const RoundingDraw&, Span<const float> source,
                                    Span<bf16> target);

}  // namespace zeroproof
