#pragma once
// Inputs of the linear layers of a model, counted as integers: any rank may have any windows of the
// text.

#include <map>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/contracts/calibration.hpp"
#include "verification/model/byte_gpt_linear.hpp"
#include "verification/tools/quantize/calibration/magnitude_histogram.hpp"
#include "verification/tools/quantize/payload.hpp"

namespace zeroproof::verification {

/// Of the layer with one weight.
struct InputStatistics {
  InputStatistics(const QuantPayload& payload, HistogramGrowth growth, std::int64_t num_channels);

  /// The amax of one scale, before the mean-square sweep.
  std::uint32_t amax(const Exec& exec) const;
  /// Collective: channels and bins of all ranks on every rank.
  void merge(Communicator& ranks);

  QuantPayload payload;
  std::vector<std::uint32_t> channels;  ///< [inputs]: the amax of each
  MagnitudeHistogram histogram;
  std::vector<NormLimbs>
      errors;  ///< [num_clips] for the method mse, filled by a second pass over the text
};

/// By the weight's place in registration order.
using LayerInputs = std::map<int, InputStatistics>;

/// Collective: the errors of all ranks on every rank, after the second pass.
void merge_errors(LayerInputs& layers, Communicator& ranks);

/// How values of a payload's format are quantized, in these blocks.
FakeQuantization fake_quantization_of(const QuantPayload& payload, const BlockGrid& grid);

/// The amax that a payload's method makes of bins.
std::uint32_t amax_of_bins(const Exec& exec, const QuantPayload& payload,
                           const MagnitudeHistogram& histogram);

/// Watches one pass.
class InputObserver final : public workload::LinearObserver<float> {
 public:
  explicit InputObserver(LayerInputs& layers) : layers_(layers) {}
  workload::Matrix<const float> input(int weight, workload::Matrix<const float> x) override;

 private:
  LayerInputs& layers_;
};

/// Watches a second pass: squared errors of the candidates of the method mse.
class ErrorObserver final : public workload::LinearObserver<float> {
 public:
  explicit ErrorObserver(LayerInputs& layers) : layers_(layers) {}
  workload::Matrix<const float> input(int weight, workload::Matrix<const float> x) override;

 private:
  LayerInputs& layers_;
};

}  // namespace zeroproof::verification
