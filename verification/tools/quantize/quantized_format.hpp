#pragma once
// The metadata that marks a file's tensors as codes.

#include "common/io/safetensors/safetensors_types.hpp"

namespace zeroproof {

inline constexpr const char* quantized_key = "quantized";
inline constexpr const char* quantized_format = "zeroproof-quantized/1";

/// True if a model's file holds codes with scales, which are no parameters.
inline bool is_quantized(const SafeMetadata& metadata) {
  return metadata.count(quantized_key) != 0;
}

}  // namespace zeroproof
