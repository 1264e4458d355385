#include <algorithm>
#include <bit>
#include <vector>

#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/formats/calibration_checks.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

/// Maps magnitudes to bins. If the width is a power of two, the bin is the significand without the
/// bits that weigh less than a bin; other widths divide in fp64, which cannot round a quotient up
/// to an integer because its distance from the next integer is at least 2^-45.
class BinPlaces {
 public:
  BinPlaces(float width, std::int64_t bins, HistogramEnd end)
      : width_(width), bins_(bins), behind_(end == HistogramEnd::closed ? bins - 1 : bins) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(width);
    const std::uint32_t exponent = bits >> 23, fraction = bits & 0x7FFFFFU;
    if (exponent != 0U ? fraction == 0U : (fraction & (fraction - 1U)) == 0U) {
      // 2^(unit - 149), unit being 0 for the smallest subnormal number.
      unit_ = exponent != 0U ? static_cast<int>(exponent) + 22 : std::countr_zero(fraction);
    }
  }

  std::int64_t of(float value) const {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
    if (magnitude >= 0x7F800000U) return bins_ + 1;
    return unit_ >= 0 ? shifted(magnitude) : divided(std::bit_cast<float>(magnitude));
  }

 private:
  std::int64_t shifted(std::uint32_t magnitude) const {
    const std::uint32_t exponent = magnitude >> 23;
    const std::uint32_t significand = (magnitude & 0x7FFFFFU) | (exponent != 0U ? 0x800000U : 0U);
    const int up = static_cast<int>(std::max(exponent, 1U)) - 1 - unit_;  // significand * 2^up bins
    if (up <= -24) return 0;
    if (up <= 0)
      return std::min<std::int64_t>(significand >> -up, bins_) == bins_
                 ? behind_
                 : static_cast<std::int64_t>(significand >> -up);
    const bool inside = up < 24 && (std::int64_t{significand} << up) < bins_;
    return inside || significand == 0U ? std::int64_t{significand} << (significand == 0U ? 0 : up)
                                       : behind_;
  }

  std::int64_t divided(float magnitude) const {
    const double place = static_cast<double>(magnitude) / width_;
    return place < static_cast<double>(bins_) ? static_cast<std::int64_t>(place) : behind_;
  }

  double width_;
  std::int64_t bins_, behind_;
  int unit_ = -1;  // -1: not a power of two
};

}  // namespace

void histogram_count(const Exec& exec, float width, HistogramEnd end, Span<const float> values,
                     Span<std::uint64_t> count) {
  const std::int64_t bins = numel(count) - histogram_extra;
  require_bins("histogram_count", bins, width);
  const BinPlaces places(width, bins, end);
  using Counts = std::vector<std::uint64_t>;  // of one thread
  Counts all(count.size(), 0);
  parallel_sum(
      exec, numel(values), all,
      [&](std::int64_t from, std::int64_t to, Counts& mine) {
        mine.resize(count.size(), 0);
        for (std::int64_t i = from; i < to; ++i) {
          const float value = values[i];
          mine[places.of(value)] += 1;
        }
      },
      [](const Counts& mine, Counts& into) {
        for (std::size_t k = 0; k < mine.size(); ++k) into[k] += mine[k];
      });
  for (std::size_t k = 0; k < all.size(); ++k) count[k] += all[k];
}

void histogram_widen(const Exec&, int doublings, Span<std::uint64_t> count) {
  const std::int64_t bins = numel(count) - histogram_extra;
  require_bins("histogram_widen", bins, 1.0F);
  ZP_CHECK(doublings >= 0, ErrorCode::invalid_argument,
           "histogram_widen: " + std::to_string(doublings) + " doublings",
           "bins that were joined cannot be split again", "pass 0 or more");
  if (doublings == 0) return;
  const int shift = std::min(doublings, 32);
  const std::int64_t last = (bins - 1) >> shift;
  for (std::int64_t k = 0; k <= last; ++k) {  // the write position is before the read position
    std::uint64_t sum = 0;
    for (std::int64_t j = k << shift; j < std::min((k + 1) << shift, bins); ++j) sum += count[j];
    count[k] = sum;
  }
  std::fill(count.begin() + last + 1, count.begin() + bins, std::uint64_t{0});
}

int histogram_exponent(std::uint32_t amax, std::int64_t bins) {
  require_exponent(amax, bins);
  // amax is n units of 2^(unit - 149); finds the smallest shift that leaves less than `bins` of it.
  const std::uint32_t exponent = amax >> 23;
  const std::uint32_t n = (amax & 0x7FFFFFU) | (exponent != 0U ? 0x800000U : 0U);
  const int unit = static_cast<int>(std::max(exponent, 1U)) - 1;
  if (n == 0U) return -149;
  const auto limit = static_cast<std::uint64_t>(bins);
  int shift = static_cast<int>(std::bit_width(n)) - static_cast<int>(std::bit_width(limit));
  // n < bins * 2^shift, with each factor on the side that keeps it an integer.
  const auto fits = [&](int s) { return s >= 0 ? n < limit << s : std::uint64_t{n} << -s < limit; };
  while (!fits(shift)) ++shift;
  while (fits(shift - 1)) --shift;
  return std::max(unit + shift - 149, -149);
}

}  // namespace zeroproof::cuda::host
