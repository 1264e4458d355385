#pragma once
// The effect of a file's rules on a model, as text and as JSON.

#include <string>

#include "verification/tools/quantize/assignment.hpp"

namespace zeroproof::verification {

inline constexpr std::size_t quantization_columns = 80;

/// Rules, tensors and traps, in lines of at most quantization_columns columns: long names are
/// shortened in the middle.
std::string quantization_text(const QuantizationConfig& config,
                              const QuantizationAssignment& assignment, const std::string& model,
                              bool colour);

/// JSON, zeroproof-quantization/1.
std::string quantization_json(const QuantizationConfig& config,
                              const QuantizationAssignment& assignment, const std::string& model);

/// The table of the fields of a payload.
std::string payload_fields_text();

}  // namespace zeroproof::verification
