#pragma once
// What calibration and fake quantization refuse, on the host and on a device.

#include <cstdint>
#include <string>

#include "common/base/error.hpp"
#include "common/contracts/fake_quantize.hpp"
#include "common/contracts/histogram.hpp"
#include "cuda/host/block_part.hpp"

namespace zeroproof::cuda {

inline void require_fake_quantization(const char* op, const FakeQuantization& options, std::int64_t first,
                                      std::size_t numel, std::size_t num_blocks) {
  require_block_part(op, options.grid, first, numel, "amax", num_blocks);
  ZP_CHECK(options.bits >= 2 && options.bits <= 16, ErrorCode::invalid_argument,
           std::string(op) + ": " + std::to_string(options.bits) + " bits",
           "codes of integers have 2 to 16 of them", "pass a number in this range");
}

inline void require_integer_codes(const FakeQuantization& options) {
  ZP_CHECK(options.format == FakeFormat::integer && options.bits <= 8, ErrorCode::invalid_argument,
           "quantize_integer: codes that are no integers of at most 8 bits", "one byte would not hold them",
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

}  // namespace zeroproof::cuda
