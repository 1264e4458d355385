#pragma once
// The position of a run's planted infinity.

#include <cstdint>
#include <limits>

#include "common/layout/flat_layout.hpp"
#include "verification/cases/config/config.hpp"

namespace zeroproof::verification {

/// The tensor of run.overflow_tensor, or the last one that has elements; -1 if none has. Errors
/// (ErrorCode::config): there is no such tensor, or it has no elements.
std::int64_t overflow_tensor(const RunConfig& config, const FlatLayout& layout);

/// Makes the last element of a tensor infinite, or `value`; no effect for -1. leaf: [padded_numel],
/// fp16 or fp32.
void plant_infinity(const FlatLayout& layout, std::int64_t tensor, const TensorView& leaf,
                    float value = std::numeric_limits<float>::infinity());

}  // namespace zeroproof::verification
