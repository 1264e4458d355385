#pragma once
// What calibration and fake quantization refuse, on the host and on a device.

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
           "codes of integers have 2 to 16 of them", "pass a number in this range");
}

inline void require_integer_codes(const FakeQuantization& options) {
  ZP_CHECK(options.format == FakeFormat::integer && options.bits <= 8, ErrorCode::invalid_argument,
           "quantize_integer: codes that are no integers of at most 8 bits",
           "one byte would not hold them",
           "quantize fp8 by blocks, and integers of more bits without codes");
}

inline void require_bins(const char* op, std::int64_t bins, float width) {
  ZP_CHECK(bins >= fewest_bins && bins <= most_appended_bins, ErrorCode::invalid_argument,
           std::string(op) + ": " + std::to_string(bins) + " bins", "there are 256 to 2^20 of them",
           "pass counts of that many bins, with two more behind them where elements are counted");
  ZP_CHECK(width > 0 && width < __builtin_inff(), ErrorCode::invalid_argument,
           std::string(op) + ": the width of a bin is " + std::to_string(width),
           "magnitudes are divided by it", "pass a finite number above 0");
}

inline void require_exponent(std::uint32_t amax, std::int64_t bins) {
  ZP_CHECK(amax < 0x7F800000U, ErrorCode::invalid_argument,
           "histogram_exponent: amax is infinite or a NaN", "a histogram has finite magnitudes",
           "find out where they come from before calibrating");
  ZP_CHECK(bins >= fewest_bins && bins <= most_bins, ErrorCode::invalid_argument,
           "histogram_exponent: " + std::to_string(bins) + " bins",
           "there are 256 to 65536 at first", "pass a number in this range");
}

/// Sums of counts stay at this: fp64 does not hold every larger one.
inline constexpr std::uint64_t too_many_counted = std::uint64_t{1} << 53;

/// elements: the sum of all counts, or too_many_counted.
inline void require_counted(const char* op, std::uint64_t elements) {
  ZP_CHECK(elements < too_many_counted, ErrorCode::invalid_argument,
           std::string(op) + ": 2^53 elements or more were counted",
           "fp64 does not hold their number", "calibrate on a part of them");
  ZP_CHECK(elements > 0, ErrorCode::invalid_argument, std::string(op) + ": no element was counted",
           "there is nothing to choose a magnitude by", "count elements before");
}

inline void require_percentile(double percentile) {
  ZP_CHECK(percentile >= 0 && percentile <= 100, ErrorCode::invalid_argument,
           "percentile_amax: percentile " + std::to_string(percentile), "it is one of 0 to 100",
           "pass a number in this range");
}

inline void require_entropy_bits(int bits) {
  ZP_CHECK(bits >= 2 && bits <= 8, ErrorCode::invalid_argument,
           "entropy_amax: " + std::to_string(bits) + " bits",
           "there are at most 128 levels in 256 bins", "pass 2 to 8");
}

inline void require_clip_errors(const char* op, std::size_t num_blocks, std::size_t num_errors) {
  ZP_CHECK(num_errors == num_blocks * num_clips, ErrorCode::invalid_argument,
           std::string(op) + ": errors has " + std::to_string(num_errors) + " elements for " +
               std::to_string(num_blocks) + " blocks",
           "every block has 25 candidates", "pass limbs for each of them");
}

inline void require_alpha(double alpha) {
  ZP_CHECK(alpha >= 0 && alpha <= 1, ErrorCode::invalid_argument,
           "smooth_scales: alpha " + std::to_string(alpha), "it is a share of one",
           "pass a number from 0 to 1");
}

}  // namespace zeroproof::cuda
