#include "reference/formats/calibration_checks.hpp"

#include <limits>
#include <string>

#include "common/base/error.hpp"
#include "reference/checks.hpp"

namespace zeroproof::reference {

void check_fake_quantization(const char* operation, const FakeQuantization& options,
                             std::int64_t first, std::int64_t numel, std::int64_t num_amax) {
  const BlockGrid& grid = options.grid;
  ZP_CHECK(grid.is_legal(), ErrorCode::invalid_argument,
           std::string(operation) + ": there is no tensor of " + std::to_string(grid.rows) + " x " +
               std::to_string(grid.columns) + " elements in blocks of " +
               std::to_string(grid.block_rows) + " x " + std::to_string(grid.block_columns),
           "dimensions or blocks are too small",
           "give dimensions of at least 0 and blocks of at least 1 x 1");
  ZP_CHECK(first >= 0 && first <= grid.numel() && numel <= grid.numel() - first,
           ErrorCode::invalid_argument,
           std::string(operation) + ": a part of " + std::to_string(numel) + " elements from " +
               std::to_string(first) + " is not within " + std::to_string(grid.numel()) +
               " elements",
           "it would get scales of other blocks", "pass a part within the tensor");
  ZP_CHECK(num_amax == grid.num_blocks(), ErrorCode::invalid_argument,
           std::string(operation) + ": got " + std::to_string(num_amax) + " amax for " +
               std::to_string(grid.num_blocks()) + " blocks",
           "every block needs one", "pass one for every block, including blocks outside this part");
  ZP_CHECK(options.bits >= 2 && options.bits <= 16, ErrorCode::invalid_argument,
           std::string(operation) + ": codes of " + std::to_string(options.bits) + " bits",
           "fake quantization has integers of 2 to 16 bits",
           "choose a number of bits in this range");
}

void check_bins(const char* operation, std::int64_t bins, float width) {
  ZP_CHECK(bins >= fewest_bins && bins <= most_appended_bins, ErrorCode::invalid_argument,
           std::string(operation) + ": " + std::to_string(bins) + " bins",
           "a histogram has " + std::to_string(fewest_bins) + " to " +
               std::to_string(most_appended_bins),
           "choose a number in this range");
  ZP_CHECK(width > 0 && width <= std::numeric_limits<float>::max(), ErrorCode::invalid_argument,
           std::string(operation) + ": bins of width " + text(width),
           "every bin needs a finite width above 0", "pass such a width");
}

std::uint64_t check_counts(const char* operation, Span<const std::uint64_t> count) {
  constexpr std::uint64_t too_many = std::uint64_t{1} << 53;
  std::uint64_t n = 0;
  for (const std::uint64_t here : count) {
    ZP_CHECK(here < too_many && n + here < too_many, ErrorCode::invalid_argument,
             std::string(operation) + ": the bins count 2^53 elements or more",
             "such counts are not exact in fp64", "calibrate with fewer elements");
    n += here;
  }
  ZP_CHECK(n > 0, ErrorCode::invalid_argument, std::string(operation) + ": the bins are empty",
           "there is no magnitude to clip", "collect some elements first");
  return n;
}

}  // namespace zeroproof::reference
