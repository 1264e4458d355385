#pragma once
// Argument checks of calibration and fake quantization.

#include <cstdint>

#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/histogram.hpp"

namespace zeroproof::reference {

/// Throws invalid_argument unless the options are legal, elements first .. first + numel - 1 are in
/// the tensor, and there is one amax for every block.
void check_fake_quantization(const char* operation, const FakeQuantization& options,
                             std::int64_t first, std::int64_t numel, std::int64_t num_amax);

/// Throws invalid_argument unless bins is within fewest_bins .. most_appended_bins and width an
/// fp32 value above 0.
void check_bins(const char* operation, std::int64_t bins, float width);

/// Returns the number of elements counted. Throws invalid_argument unless it is above 0 and below
/// 2^53.
std::uint64_t check_counts(const char* operation, Span<const std::uint64_t> count);

}  // namespace zeroproof::reference
