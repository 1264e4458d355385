#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// The 8-bit formats that have scales.
enum class Fp8 : std::uint8_t { e4m3, e5m2 };

/// Largest finite value of a format: the target of a block's scaled amax.
constexpr float largest_of(Fp8 format) { return format == Fp8::e4m3 ? 448.0F : 57344.0F; }

/// The recipes `current` and `blockwise`: scales of the values that are quantized now.
struct CurrentScaling {
  Fp8 format = Fp8::e4m3;
  float epsilon = 0;          ///< lower bound of amax; finite, >= 0
  bool power_of_two = false;  ///< round the scale down to a power of two
};

/// Scales from largest magnitudes.
///
/// Shapes   amax, scale, scale_inv: [num_blocks], >= 0. Buffers do not overlap.
/// Units    amax: bits of a magnitude as BlockAmaxFn writes them; a pattern above 0x7F800000 is a NaN. Values are
///          multiplied by scale to be quantized, codes by scale_inv to be dequantized.
/// Order    a = the fp32 value of amax; if a < epsilon: a = epsilon. If a is 0, infinite or NaN: s = 1. Otherwise
///          s = top / a, one fp32 rounding, top = largest_of(format); if s is infinite: s = the largest finite fp32.
///          power_of_two: the 23 bits of the fraction of s become 0. scale = s; scale_inv = 1 / s, one fp32 rounding.
/// Exact    bitwise. scale is a normal number, scale_inv may be subnormal.
/// Errors   invalid_argument if the numels differ, or epsilon is negative, infinite or NaN (-0 is 0).
/// Contract R22. Source: [SCALE:current].
using CurrentScalesFn = void(const Exec&, const CurrentScaling&, Span<const std::uint32_t> amax,
                             Span<float> scale, Span<float> scale_inv);

/// Power-of-two scales with 8 bits each, those of MXFP8.
///
/// Shapes   amax, exponent, scale: [num_blocks], >= 0. Buffers do not overlap.
/// Order    a as above; p = a * c, one fp32 rounding, c = fp32(1 / 448) = 0x3B124925 (e4m3) or fp32(1 / 57344) =
///          0x37924925 (e5m2); exponent = p as CastToE8m0Fn rounds it (up); scale = 2^(127 - exponent bits), a
///          subnormal fp32 for 254, a NaN for 255. scale_inv is exponent, widened.
/// Exact    bitwise. An amax of 0 has exponent 0 and scale 2^127; infinity has 254, NaN has 255.
/// Errors   invalid_argument if the numels differ.
/// Contract R8, R22. Source: [SCALE:mx].
using Mxfp8ScalesFn = void(const Exec&, Fp8 format, Span<const std::uint32_t> amax,
                           Span<e8m0> exponent, Span<float> scale);

/// The amax of the history that determines the scale.
enum class AmaxChoice : std::uint8_t { max, most_recent };

/// Treatment of a tensor whose collected amax is 0, i.e. that was not used.
enum class EmptyAmax : std::uint8_t {
  keep,  ///< history and scale are unchanged
  roll   ///< as for any other tensor
};

/// The recipe `delayed`: scales from amaxes of earlier steps.
struct DelayedScaling {
  Fp8 format = Fp8::e4m3;
  int margin = 0;               ///< 0..64: bits of headroom above the amax
  std::int64_t history = 1024;  ///< 1..1024: slots of a tensor
  AmaxChoice choice = AmaxChoice::max;
  EmptyAmax empty = EmptyAmax::keep;
};

/// Ends a step: makes scales from the histories, and shifts these by one step.
///
/// Shapes   history: [num_tensors * options.history], the slots of a tensor side by side; scale, scale_inv:
///          [num_tensors], >= 0. Buffers do not overlap.
/// Units    slot 0 collects the amax of the current step (bits, as BlockAmaxFn writes them; raised by
///          every quantization); slots history - 1, history - 2 .. 1 hold those of the steps before, the newest in the last.
/// Order    for each tensor, n = options.history, h its old slots. If h[0] = 0 and empty is keep: history and
///          scale keep their bits. Otherwise:
///          m = the unsigned maximum of h[0] .. h[n-1] (max), or h[0] (most_recent);
///          if m is 0 or at least 0x7F800000 (infinite, NaN): scale keeps its bits;
///          else s = (top * 2^-margin) / a, a the fp32 value of m, the product exact, one fp32 rounding of the
///          quotient; s infinite: the largest finite fp32; s < 2^-126: 2^-126; scale = s;
///          h'[k] = h[k+1] for 0 < k < n-1;  if n > 1: h'[n-1] = h[0];  h'[0] = 0.
///          In every case then scale_inv = 1 / scale, one fp32 rounding, of the current value of scale.
/// Exact    bitwise.
/// Errors   invalid_argument if margin or history is out of range, or the numels do not fit; nothing is written then.
/// Contract R22. Source: [SCALE:delayed].
using DelayedScalesFn = void(const Exec&, const DelayedScaling& options,
                             Span<std::uint32_t> history, Span<float> scale, Span<float> scale_inv);

}  // namespace zeroproof
