#pragma once
// Calibrates and quantizes a model: windows of a text pass through it on any ranks, and their
// statistics are joined as integers, so that the codes, the scales and the perplexities do not
// depend on the ranks.

#include <functional>
#include <string>
#include <vector>

#include "verification/cases/case.hpp"
#include "verification/model/text.hpp"
#include "verification/tools/quantize/assignment.hpp"
#include "verification/tools/quantize/calibration/quantized_tensor.hpp"

namespace zeroproof::verification {

struct QuantizeJob {
  const ModelFile& model;
  const QuantizationAssignment& assignment;
  workload::Text calibration;
  workload::Text evaluation;   ///< no bytes: the perplexity is that of the calibration's windows
  std::int64_t samples = 128;  ///< windows at most, of either text
  HistogramGrowth growth = HistogramGrowth::doubling;
  WorldSpec world = {};
  double timeout_s = 60;
  std::function<void(double fraction, const std::string& what)> progress = {};
};

/// Mean loss over the windows of a text, in their order.
struct Perplexity {
  std::int64_t windows = 0;
  double loss = 0;  ///< nats per byte
  double value = 0;
};

struct QuantizeResult {
  std::int64_t samples = 0;  ///< windows used for the calibration
  std::vector<QuantizedTensor> tensors;
  Perplexity before, after;
};

/// Windows of context + 1 bytes that a text has, the last byte of one being the first of the next:
/// each byte but the first is predicted once.
std::int64_t windows_of(const workload::Text& text, std::int64_t context);

/// Tensors of one dimension stay as they are, with any payload.
/// Errors: ErrorCode::config if no rule turns a matrix on, a payload does not fit its tensor, the
/// world has processes, or appended bins would have to be merged; nonfinite if an input is.
QuantizeResult run_quantize_job(const QuantizeJob& job);

}  // namespace zeroproof::verification
