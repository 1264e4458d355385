#pragma once
// Argument checks of calibration and fake quantization, shared by host and device.

#include <cstdint>
#include <string>

#include "common/base/error.hpp"
#include "common/contracts/calibration.hpp"
#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/histogram.hpp"
#include "cuda/host/formats/block_part.hpp"

namespace zeroproof::cuda {

inline void require_fake_quantization(const char* op, const FakeQuantization& options,
                                      std::int64_t first, std::size_t numel,
                                      std::size_t num_blocks) {
  require_block_part(op, options.grid, first, numel, "amax", num_blocks);
  ZP_CHECK(options.bits >= 2 && options.bits <= 16, ErrorCode::invalid_argument,
           std::string(op) + ": " + std::to_string(options.bits) + " bits",
           "integer codes have 2 to 16 bits", "pass a number in this range");
}

inline void require_integer_codes(const FakeQuantization& options) {
  ZP_CHECK(options.format == FakeFormat::integer && options.bits <= 8, ErrorCode::invalid_argument,
           "quantize_integer: codes are not integers of at most 8 bits",
           "each code is stored in one byte",
           "quantize fp8 by blocks, or wider integers without codes");
}

inline void require_bins(const char* op, std::int64_t bins, float width) {
  ZP_CHECK(bins >= fewest_bins && bins <= most_appended_bins, ErrorCode::invalid_argument,
           std::string(op) + ": " + std::to_string(bins) + " bins",
           "the number must be from 256 to 2^20",
           "pass that many counts, plus two more where elements are counted");
  ZP_CHECK(width > 0 && width < __builtin_inff(), ErrorCode::invalid_argument,
           std::string(op) + ": the width of a bin is " + std::to_string(width),
           "magnitudes are divided by it", "pass a finite number above 0");
}

inline void require_exponent(std::uint32_t amax, std::int64_t bins) {
  ZP_CHECK(amax < 0x7F800000U, ErrorCode::invalid_argument,
           "histogram_exponent: amax is infinite or a NaN", "a histogram counts finite magnitudes",
           "find the source of the nonfinite values before calibrating");
  ZP_CHECK(bins >= fewest_bins && bins <= most_bins, ErrorCode::invalid_argument,
           "histogram_exponent: " + std::to_string(bins) + " bins",
           "the initial number must be from 256 to 65536", "pass a number in this range");
}

/// Saturation limit of sums of counts: fp64 cannot represent every larger integer.
inline constexpr std::uint64_t too_many_counted = std::uint64_t{1} << 53;

/// elements: the sum of all counts, or too_many_counted.
inline void require_counted(const char* op, std::uint64_t elements) {
  ZP_CHECK(elements < too_many_counted, ErrorCode::invalid_argument,
           std::string(op) + ": 2^53 elements or more were counted",
           "fp64 cannot represent their number", "calibrate on a part of them");
  ZP_CHECK(elements > 0, ErrorCode::invalid_argument, std::string(op) + ": no element was counted",
           "an empty histogram does not determine a magnitude", "count elements first");
}

inline void require_percentile(double percentile) {
  ZP_CHECK(percentile >= 0 && percentile <= 100, ErrorCode::invalid_argument,
           "percentile_amax: percentile " + std::to_string(percentile), "it must be from 0 to 100",
           "pass a number in this range");
}

inline void require_entropy_bits(int bits) {
  ZP_CHECK(bits >= 2 && bits <= 8, ErrorCode::invalid_argument,
           "entropy_amax: " + std::to_string(bits) + " bits", "256 bins allow at most 128 levels",
           "pass 2 to 8");
}

inline void require_clip_errors(const char* op, std::size_t num_blocks, std::size_t num_errors) {
  ZP_CHECK(num_errors == num_blocks * num_clips, ErrorCode::invalid_argument,
           std::string(op) + ": errors has " + std::to_string(num_errors) + " elements for " +
               std::to_string(num_blocks) + " blocks",
           "each block has 25 candidates", "pass the limbs of every candidate");
}

inline void require_alpha(double alpha) {
  ZP_CHECK(alpha >= 0 && alpha <= 1, ErrorCode::invalid_argument,
           "smooth_scales: alpha " + std::to_string(alpha), "it must be from 0 to 1",
           "pass a number from 0 to 1");
}

}  // namespace zeroproof::cuda
