#include "verification/tools/quantize/calibration/magnitude_histogram.hpp"

#include <array>
#include <bit>
#include <cmath>

#include "common/base/error.hpp"
#include "common/contracts/histogram.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::verification {

Span<const std::string_view> names_of(HistogramGrowth) {
  static constexpr std::array<std::string_view, 2> names = {"doubling", "appended"};
  return names;
}

MagnitudeHistogram::MagnitudeHistogram(HistogramGrowth growth, std::int64_t bins)
    : growth_(growth), count_(static_cast<std::size_t>(bins + histogram_extra), 0) {}

float MagnitudeHistogram::width() const {
  return growth_ == HistogramGrowth::doubling ? std::ldexp(1.0F, exponent_) : width_;
}

Span<const std::uint64_t> MagnitudeHistogram::count() const {
  return Span<const std::uint64_t>(count_).first(count_.size() - histogram_extra);
}

void MagnitudeHistogram::widen_to(int exponent) {
  if (exponent <= exponent_) return;
  cuda::host::histogram_widen({}, exponent - exponent_, count_);
  exponent_ = exponent;
}

void MagnitudeHistogram::add(const Exec& exec, Span<const float> values) {
  std::uint32_t amax = 0;
  cuda::host::grad_max_accumulate(exec, values, amax);
  ZP_CHECK(amax < 0x7F800000U, ErrorCode::nonfinite,
           "a value that is calibrated is infinite or NaN", "no largest magnitude would fit it",
           "find the step at which the model diverges");
  amax_ = std::max(amax_, amax);
  const auto bins = static_cast<std::int64_t>(count_.size()) - histogram_extra;
  if (growth_ == HistogramGrowth::doubling) {
    widen_to(cuda::host::histogram_exponent(amax_, bins));
    cuda::host::histogram_count(exec, width(), HistogramEnd::open, values, count_);
    return;
  }
  const double m = std::bit_cast<float>(amax);
  if (width_ == 0) width_ = static_cast<float>(m / static_cast<double>(bins));
  ZP_CHECK(width_ > 0, ErrorCode::invalid_argument,
           "the first batch has no magnitude that bins could divide",
           "appended bins have the width that it needs",
           "use --histogram doubling, or another text");
  if (m > static_cast<double>(bins) * width_) {
    const double needed = std::ceil(m / width_);
    ZP_CHECK(needed <= static_cast<double>(most_appended_bins), ErrorCode::invalid_argument,
             "appended bins would be more than 2^20",
             "the first batch was much smaller than a later one",
             "use --histogram doubling, whose bins widen");
    count_.insert(count_.end() - histogram_extra,
                  static_cast<std::size_t>(needed) - static_cast<std::size_t>(bins), 0);
  }
  cuda::host::histogram_count(exec, width_, HistogramEnd::closed, values, count_);
}

void MagnitudeHistogram::merge(Communicator& ranks) {
  if (ranks.world_size() == 1) return;
  ZP_CHECK(growth_ == HistogramGrowth::doubling, ErrorCode::invalid_argument,
           "appended bins cannot be merged over " + std::to_string(ranks.world_size()) + " ranks",
           "their width depends on which batch comes first",
           "use --histogram doubling, or --world self");
  std::array<std::uint64_t, 2> largest = {amax_, static_cast<std::uint64_t>(exponent_ + 149)};
  ranks.all_reduce(largest, IntegerReduce::max);
  amax_ = static_cast<std::uint32_t>(largest[0]);
  widen_to(static_cast<int>(largest[1]) - 149);
  ranks.all_reduce(count_, IntegerReduce::sum);
}

}  // namespace zeroproof::verification
