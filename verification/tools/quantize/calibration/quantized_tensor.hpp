#pragma once
// One tensor of a model as codes and scales, and its error.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "verification/tools/quantize/calibration/input_statistics.hpp"
#include "verification/tools/quantize/calibration/model_file.hpp"

namespace zeroproof::verification {

/// Differences between the decoded codes and the tensor.
struct QuantizationError {
  double largest = 0;  ///< |x - f|
  double rms = 0;      ///< root of the mean square of x - f
  std::optional<double>
      sqnr_db;  ///< 20 log10 of the norm of x by that of x - f; nothing if one of them is 0
};

struct QuantizedTensor {
  std::size_t tensor = 0;  ///< in the layout
  QuantPayload payload;
  BlockGrid grid;                   ///< of scales
  std::vector<std::uint32_t> amax;  ///< [num_blocks]
  std::vector<float>
      scale;  ///< [num_blocks]: a code is scale times a value; empty for bf16 and fp16
  std::vector<std::byte> codes;  ///< a byte each, two for bf16 and fp16
  std::vector<float> values;     ///< the decoded codes
  QuantizationError error;       ///< against the tensor, for SmoothQuant against the smoothed one
  std::vector<float>
      smooth;  ///< SmoothQuant: the factors of inputs; the tensor was divided by them
  std::optional<std::uint32_t> input_amax;  ///< of a linear layer's inputs, smoothed if they are
  float input_scale = 1;
};

/// input: nullptr if the tensor is no weight of a linear layer.
/// Errors (ErrorCode::config): the payload needs an axis or inputs that the tensor does not have; a
/// recipe.
QuantizedTensor quantize_tensor(const Exec& exec, const ModelFile& model, std::size_t tensor,
                                const QuantPayload& payload, HistogramGrowth growth,
                                const InputStatistics* input);

/// Before anything is run: whether quantize_tensor() will refuse.
void check_payload(const TensorSlot& slot, const QuantPayload& payload, bool has_input);

/// True for weights of linear layers: their inputs are calibrated, and quantized where the model is
/// run.
bool has_inputs(const std::string& tensor);

}  // namespace zeroproof::verification
