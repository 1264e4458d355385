#include "verification/tools/quantize/calibration/input_statistics.hpp"

#include <algorithm>
#include <bit>

#include "common/base/error.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::verification {
namespace {

/// The input of a layer is a range of complete rows.
Span<const float> dense(workload::Matrix<const float> x) {
  ZP_CHECK(x.row_stride == x.columns && x.column_stride == 1, ErrorCode::internal,
           "a linear layer received a part of a matrix",
           "its statistics would be of other elements", "report this as a defect");
  return {x.data, static_cast<std::size_t>(x.rows * x.columns)};
}

constexpr std::size_t words_of_limbs = 23;

void raise_channels(Communicator& ranks, std::vector<std::uint32_t>& channels) {
  std::vector<std::uint64_t> words(channels.begin(), channels.end());
  ranks.all_reduce(words, IntegerReduce::max);
  std::ranges::transform(words, channels.begin(),
                         [](std::uint64_t word) { return static_cast<std::uint32_t>(word); });
}

void add_errors(Communicator& ranks, std::vector<NormLimbs>& errors) {
  std::vector<std::uint64_t> words;
  for (NormLimbs& limbs : errors) {
    cuda::host::grad_norm_normalise(limbs);
    words.insert(words.end(), limbs.limbs.begin(), limbs.limbs.end());
    words.push_back(limbs.nan_count);
    words.push_back(limbs.inf_count);
  }
  ranks.all_reduce(words, IntegerReduce::sum);
  for (std::size_t c = 0; c < errors.size(); ++c) {
    const auto* const from = words.data() + c * words_of_limbs;
    std::copy_n(from, errors[c].limbs.size(), errors[c].limbs.begin());
    errors[c].nan_count = from[words_of_limbs - 2];
    errors[c].inf_count = from[words_of_limbs - 1];
  }
}

}  // namespace

FakeQuantization fake_quantization_of(const QuantPayload& payload, const BlockGrid& grid) {
  FakeQuantization options{grid};
  if (payload.format == QuantFormat::int4) options.bits = 4;
  if (payload.format == QuantFormat::e4m3) options.format = FakeFormat::e4m3;
  if (payload.format == QuantFormat::e5m2) options.format = FakeFormat::e5m2;
  return options;
}

std::uint32_t amax_of_bins(const Exec& exec, const QuantPayload& payload,
                           const MagnitudeHistogram& histogram) {
  switch (payload.calibration) {
    case CalibrationMethod::percentile:
      return std::bit_cast<std::uint32_t>(
          cuda::host::percentile_amax(histogram.count(), histogram.width(), payload.percentile));
    case CalibrationMethod::entropy:
      return std::bit_cast<std::uint32_t>(
          cuda::host::entropy_amax(exec, histogram.count(), histogram.width(), 8));
    default:
      return histogram.amax();
  }
}

InputStatistics::InputStatistics(const QuantPayload& of_layer, HistogramGrowth growth,
                                 std::int64_t num_channels)
    : payload(of_layer),
      channels(static_cast<std::size_t>(num_channels), 0),
      histogram(growth, of_layer.bins),
      errors(of_layer.calibration == CalibrationMethod::mse ? num_clips : 0) {}

std::uint32_t InputStatistics::amax(const Exec& exec) const {
  return amax_of_bins(exec, payload, histogram);
}

void InputStatistics::merge(Communicator& ranks) {
  raise_channels(ranks, channels);
  histogram.merge(ranks);
}

workload::Matrix<const float> InputObserver::input(int weight, workload::Matrix<const float> x) {
  const auto found = layers_.find(weight);
  if (found == layers_.end()) return x;
  const Span<const float> values = dense(x);
  InputStatistics& seen = found->second;
  seen.histogram.add({}, values);
  cuda::host::block_amax({}, BlockGrid{x.rows, x.columns, std::max<std::int64_t>(x.rows, 1), 1},
                         QuantizedValue::direct, 0, values, seen.channels);
  return x;
}

workload::Matrix<const float> ErrorObserver::input(int weight, workload::Matrix<const float> x) {
  const auto found = layers_.find(weight);
  if (found == layers_.end() || found->second.errors.empty()) return x;
  InputStatistics& seen = found->second;
  const std::uint32_t amax = seen.histogram.amax();
  cuda::host::clip_errors({}, fake_quantization_of(seen.payload, one_block(x.rows, x.columns)), 0,
                          dense(x), {&amax, 1}, seen.errors);
  return x;
}

void merge_errors(LayerInputs& layers, Communicator& ranks) {
  for (auto& [weight, seen] : layers) {
    if (!seen.errors.empty()) add_errors(ranks, seen.errors);
  }
}

}  // namespace zeroproof::verification
