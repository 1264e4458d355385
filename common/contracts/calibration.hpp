#pragma once

#include <array>
#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/grad_norm.hpp"

namespace zeroproof {

/// The magnitude below which a share of the elements is: the left edge of a bin.
///
/// Shapes   count: [B], counts of bins without the two extra ones; fewest_bins <= B <= most_appended_bins.
/// Units    width: of a bin. percentile: of 0..100.
/// Order    fp64: q = percentile / 100; t = q * n, n the sum of all counts. The least k for which the sum of
///          count[0] .. count[k], widened, is at least t.
/// Returns  k * width, rounded to fp32 once.
/// Errors   invalid_argument if B, width (finite, above 0) or percentile is out of range, all counts are 0, or their
///          sum is 2^53 or more.
/// Contract R26. Source: [Calib:percentile].
using PercentileAmaxFn = float(Span<const std::uint64_t> count, float width, double percentile);

/// The clip whose quantized distribution is nearest to the one of the counts, by relative entropy.
///
/// Shapes   count: [B] as above, B >= 2^(bits-1). bits: 2..8.
/// Order    R26, for each i = 2^(bits-1) .. B by itself; sums over bins from +0 in increasing order, fp64, one rounding
///          per operation, log of portable_math64.
/// Returns  i * width, rounded to fp32 once, of the last i of the least divergence; 0 if no bin but the first has an
///          element.
/// Errors   as above, and if bits is out of range.
/// Contract R26, R20. Source: [Calib:entropy].
using EntropyAmaxFn = float(const Exec&, Span<const std::uint64_t> count, float width, int bits);

/// Candidates of the mean-square sweep: amax * m / 32 for m = first_clip .. 32.
inline constexpr int first_clip = 8;
inline constexpr int num_clips = 25;

/// Squared errors of every candidate, added to limbs.
///
/// Shapes   values: [numel], elements first .. first + numel - 1 of the tensor; amax: [num_blocks] as FakeQuantizeFn
///          expects it; errors: [num_blocks * num_clips], the candidates of a block side by side.
/// Order    a = fp32(amax * m * 2^-5); f as FakeQuantizeFn with a; e = x - f, one fp32 rounding; e goes into the limbs
///          as in GradNormExactAccumulateFn.
/// Exact    bitwise: the represented value and the two counts. Ranks add theirs.
/// Errors   as FakeQuantizeFn; invalid_argument if errors has another number of elements.
/// Contract R26, R12. Source: [Calib:mse].
using ClipErrorsFn = void(const Exec&, const FakeQuantization&, std::int64_t first,
                          Span<const float> values, Span<const std::uint32_t> amax,
                          Span<NormLimbs> errors);

/// The candidate of the least error for every block.
///
/// Shapes   amax, clipped: [num_blocks]; errors: [num_blocks * num_clips] of all ranks.
/// Order    N = GradNormFinishFn of each; the first candidate of which no other has a smaller N; amax itself if an N is
///          infinite or NaN.
/// Exact    bitwise. clipped: bits of the candidate.
/// Errors   invalid_argument if the numels do not fit.
/// Contract R26.
using ClipOfErrorsFn = void(Span<const std::uint32_t> amax, Span<const NormLimbs> errors,
                            Span<std::uint32_t> clipped);

/// Factors for a layer's input channels that move the range of inputs into weights.
///
/// Shapes   input_amax, weight_amax, scale: [channels], amax as BlockAmaxFn writes them.
/// Order    R26, fp64, one rounding per operation, exp and log of portable_math64; scale rounded to fp32 once, then
///          clamped to fp32(1e-4) .. 1e4.
/// Special  1 where the input's amax is at most 2^-31, or one of both is infinite or NaN.
/// Errors   invalid_argument if the numels differ or alpha is not within 0..1.
/// Contract R26, R20. Source: [Calib:smooth].
using SmoothScalesFn = void(const Exec&, double alpha, Span<const std::uint32_t> input_amax,
                            Span<const std::uint32_t> weight_amax, Span<float> scale);

}  // namespace zeroproof
