#include <algorithm>

#include "cuda/device/kernels/base/elementwise.cuh"
#include "cuda/device/kernels/base/host_device.cuh"
#include "cuda/device/kernels/base/single.cuh"
#include "cuda/device/operations.hpp"
#include "cuda/host/formats/calibration_checks.hpp"

namespace zeroproof::cuda::device {

namespace {

#ifdef __CUDACC__
using Count = unsigned long long;  // the type that 64-bit atomics take
#else
using Count = std::uint64_t;
#endif
static_assert(sizeof(Count) == sizeof(std::uint64_t));

/// Consecutive elements of a thread often share a bin: their count is added once.
struct CountMagnitudes {
  static constexpr int pack_numel = 1;
  const float* values;  // [numel]
  Count* count;         // [bins + histogram_extra]
  double width;
  std::int64_t bins, behind;
  std::int64_t place = 0;
  std::uint32_t seen = 0;

  ZP_DEVICE std::int64_t place_of(float value) const {
    if (!is_finite(value)) return bins + 1;
    const double quotient = static_cast<double>(float_of(bits_of(value) & ~sign_bit)) / width;
    return quotient < static_cast<double>(bins) ? static_cast<std::int64_t>(quotient) : behind;
  }

  ZP_DEVICE void one(std::int64_t i) {
    const std::int64_t here = place_of(values[i]);
    if (here != place) finish();
    place = here;
    ++seen;
  }

  ZP_DEVICE void pack(std::int64_t i) { one(i); }

  ZP_DEVICE void finish() {
    if (seen != 0U) atomicAdd(count + place, Count{seen});  // no order in an integer sum (R10)
    seen = 0U;
  }
};

/// Merges bins in place. A single thread processes them in order, so that each write precedes every
/// later read position. Happens at most once per batch.
struct JoinBins {
  static constexpr int pack_numel = 1;
  std::uint64_t* count;  // [bins]
  std::int64_t bins;
  std::int64_t span;  // number of bins that are merged into one

  ZP_DEVICE void one(std::int64_t) const {
    for (std::int64_t k = 0; k < bins; ++k) {
      std::uint64_t sum = 0;
      if (k <= (bins - 1) / span) {
        const std::int64_t begin = k * span, end = bins - begin < span ? bins : begin + span;
        for (std::int64_t j = begin; j < end; ++j) sum += count[j];
      }
      count[k] = sum;
    }
  }

  ZP_DEVICE void pack(std::int64_t i) const { one(i); }
};

struct Exponent {
  std::uint32_t amax;
  std::int64_t bins;

  /// Comparisons in fp64, which has every fp32 magnitude and bins * 2^w as normal numbers.
  ZP_DEVICE int operator()() const {
    const double magnitude = static_cast<double>(float_of(amax));
    double reach = static_cast<double>(bins) * 0x1p-149;
    int w = -149;
    for (; magnitude >= reach; ++w) reach = reach + reach;
    return w;
  }
};

}  // namespace

void histogram_count(const Exec&, float width, HistogramEnd end, Span<const float> values,
                     Span<std::uint64_t> count) {
  const std::int64_t bins = numel(count) - histogram_extra;
  require_bins("histogram_count", bins, width);
  if (values.empty()) return;
  const CountMagnitudes operation{values.data(), reinterpret_cast<Count*>(count.data()), width,
                                  bins, end == HistogramEnd::closed ? bins - 1 : bins};
  run_elementwise(operation, numel(values));
}

void histogram_widen(const Exec&, int doublings, Span<std::uint64_t> count) {
  const std::int64_t bins = numel(count) - histogram_extra;
  require_bins("histogram_widen", bins, 1.0F);
  ZP_CHECK(doublings >= 0, ErrorCode::invalid_argument,
           "histogram_widen: " + std::to_string(doublings) + " doublings", "a bin cannot be split",
           "pass 0 or more");
  if (doublings == 0) return;
  run_elementwise(JoinBins{count.data(), bins, std::int64_t{1} << std::min(doublings, 32)}, 1);
}

int histogram_exponent(std::uint32_t amax, std::int64_t bins) {
  require_exponent(amax, bins);
  return on_device<int>(Exponent{amax, bins});
}

}  // namespace zeroproof::cuda::device
