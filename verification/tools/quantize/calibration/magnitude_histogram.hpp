#pragma once
// Magnitudes of one tensor, or of one layer's inputs, in bins (R26).

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof::verification {

/// How a histogram grows: doubling is the contract's, appended the one of the dialect modelopt,
/// which has the bits of one order of batches.
enum class HistogramGrowth : std::uint8_t { doubling, appended };
Span<const std::string_view> names_of(HistogramGrowth);

class MagnitudeHistogram {
 public:
  /// bins: fewest_bins to most_bins.
  MagnitudeHistogram(HistogramGrowth growth, std::int64_t bins);

  /// A batch. Errors: nonfinite if an element is infinite or NaN; invalid_argument if appended bins
  /// would be too many, or their width 0.
  void add(const Exec& exec, Span<const float> values);

  /// Collective: the counts of all ranks on every rank, by integers alone. Only while it doubles,
  /// or with one rank.
  void merge(Communicator& ranks);

  std::uint32_t amax() const { return amax_; }
  float width() const;
  /// Without the two counts behind the bins.
  Span<const std::uint64_t> count() const;

 private:
  void widen_to(int exponent);

  HistogramGrowth growth_;
  std::uint32_t amax_ = 0;
  int exponent_ = -149;  ///< doubling: of the width
  float width_ = 0;      ///< appended; 0 before the first batch
  std::vector<std::uint64_t> count_;
};

}  // namespace zeroproof::verification
