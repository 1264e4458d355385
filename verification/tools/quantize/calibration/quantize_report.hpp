#pragma once
// The result of a quantization, as text and as JSON.

#include <string>

#include "verification/tools/quantize/calibration/quantize_job.hpp"

namespace zeroproof::verification {

/// In lines of at most 100 columns.
std::string quantize_text(const QuantizeJob& job, const QuantizeResult& result);

/// JSON, zeroproof-quantize/1: no times and no ranks, so that it is the same on any.
std::string quantize_json(const QuantizeJob& job, const QuantizeResult& result,
                          const std::string& rules);

}  // namespace zeroproof::verification
