#include <bit>
#include <cmath>

#include "common/base/error.hpp"
#include "reference/checks.hpp"
#include "reference/formats/calibration_checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

void histogram_count(const Exec&, float width, HistogramEnd end, Span<const float> values,
                     Span<std::uint64_t> count) {
  const std::int64_t bins = numel(count) - histogram_extra;
  check_bins("histogram_count", bins, width);
  for (const float value : values) {
    auto place = static_cast<std::size_t>(bins) + 1;  // NaN
    if (std::isfinite(value)) {
      const double k =
          std::floor(std::fabs(static_cast<double>(value)) / static_cast<double>(width));
      const auto behind = static_cast<double>(bins);
      if (k < behind) {
        place = static_cast<std::size_t>(k);
      } else {
        place = static_cast<std::size_t>(end == HistogramEnd::closed ? bins - 1 : bins);
      }
    }
    count[place] += 1;
  }
}

void histogram_widen(const Exec&, int doublings, Span<std::uint64_t> count) {
  const std::int64_t bins = numel(count) - histogram_extra;
  check_bins("histogram_widen", bins, 1.0F);
  ZP_CHECK(doublings >= 0, ErrorCode::invalid_argument,
           "histogram_widen: " + std::to_string(doublings) + " doublings", "bins only merge",
           "pass a number of at least 0");
  for (int step = 0; step < doublings && step < 64; ++step) {  // R26: 2^r at once is r times 2
    for (std::int64_t k = 1; k < bins; ++k) {
      const std::uint64_t here = count[k];
      count[k] = 0;
      count[k / 2] += here;
    }
  }
}

int histogram_exponent(std::uint32_t amax, std::int64_t bins) {
  ZP_CHECK(amax < 0x7F800000U, ErrorCode::invalid_argument,
           "histogram_exponent: the largest magnitude is not finite", "no bin can contain it",
           "remove infinities and NaNs from the calibration data");
  ZP_CHECK(bins >= fewest_bins && bins <= most_bins, ErrorCode::invalid_argument,
           "histogram_exponent: " + std::to_string(bins) + " bins",
           "a calibration starts with 256 to 65536", "choose a number in this range");
  const double m = std::bit_cast<float>(amax);
  int w = -149;
  double reach = static_cast<double>(bins) * 0x1p-149;  // exact, and so is every power of two of it
  while (!(m < reach)) {
    reach = reach * 2;
    ++w;
  }
  return w;
}

}  // namespace zeroproof::reference
