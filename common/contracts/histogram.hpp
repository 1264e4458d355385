#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Treatment of a magnitude beyond the last bin.
enum class HistogramEnd : std::uint8_t {
  open,   ///< counted separately
  closed  ///< counted in the last bin
};

/// Number of bins at the start of a calibration, and the most after appending.
inline constexpr std::int64_t fewest_bins = 256;
inline constexpr std::int64_t most_bins = 65536;
inline constexpr std::int64_t most_appended_bins = std::int64_t{1} << 20;

/// Counters after the bins: magnitudes beyond the last bin; NaNs and infinities.
inline constexpr std::int64_t histogram_extra = 2;

/// Counts elements by magnitude.
///
/// Shapes   values: [numel], any part of anything; count: [B + histogram_extra], fewest_bins <= B <=
///          most_appended_bins.
/// Units    width: of a bin, in the unit of values; counts are added to count.
/// Order    none: integers. A finite magnitude v is in bin k = floor(v / width); k >= B: count[B], or count[B - 1] if
///          the end is closed. A NaN or an infinity: count[B + 1].
/// Exact    integer. Below 2^53 elements in all.
/// Errors   invalid_argument if B is out of range, or width is not finite and above 0; nothing is written then.
/// Contract R26. Source: [Calib:bins].
using HistogramCountFn = void(const Exec&, float width, HistogramEnd end, Span<const float> values,
                              Span<std::uint64_t> count);

/// Makes bins 2^doublings times as wide: bin k is added to bin floor(k / 2^doublings), which may be itself.
///
/// Shapes   count: [B + histogram_extra], as above; the last two are unchanged.
/// Exact    integer.
/// Errors   invalid_argument if doublings < 0 or B is out of range.
/// Contract R26.
using HistogramWidenFn = void(const Exec&, int doublings, Span<std::uint64_t> count);

/// The least w >= -149 for which the magnitude `amax` (bits; finite) is below bins * 2^w.
///
/// Exact    integer.
/// Errors   invalid_argument if amax is not below 0x7F800000, or bins is out of fewest_bins .. most_bins.
/// Contract R26.
using HistogramExponentFn = int(std::uint32_t amax, std::int64_t bins);

}  // namespace zeroproof
