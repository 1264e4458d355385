#include "verification/model/text.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"
#include "verification/model/random_streams.hpp"

namespace zeroproof::workload {
namespace {

namespace fs = std::filesystem;

// Appends up to `most` bytes of a file.
void append_file(const fs::path& path, std::int64_t most, std::vector<std::uint8_t>& bytes) {
  std::ifstream file(path, std::ios::binary);
  ZP_CHECK(file.is_open(), ErrorCode::config, "text file " + path.string() + " cannot be opened",
           "training reads it", "check its permissions");
  std::array<char, 1 << 16> piece;
  while (most > 0 && !file.eof()) {
    file.read(piece.data(), std::min<std::int64_t>(most, static_cast<std::int64_t>(piece.size())));
    const auto count = file.gcount();
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
    most -= count;
    ZP_CHECK(!file.bad() && (count > 0 || file.eof()), ErrorCode::config,
             "text file " + path.string() + " cannot be read", "training reads it",
             "check that it is a plain file on a working disk");
  }
}

void check_enough(const Text& text, std::int64_t min_bytes) {
  const auto found = static_cast<std::int64_t>(text.bytes.size());
  const std::int64_t needed = std::max<std::int64_t>(min_bytes, 1);
  ZP_CHECK(found >= needed, ErrorCode::config,
           "the text of " + text.path + " has " + std::to_string(found) + " bytes, " +
               std::to_string(needed) + " are needed",
           "micro-batches are windows of it", "use a longer text");
}

}  // namespace

Text read_text_file(const std::string& path, std::int64_t min_bytes) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  ZP_CHECK(fs::exists(status), ErrorCode::config, "text file " + path + " was not found",
           "training reads it", "check the path");
  ZP_CHECK(fs::is_regular_file(status), ErrorCode::config,
           "text file " + path +
               (fs::is_directory(status) ? " is a directory" : " is not a regular file"),
           "it must be readable more than once", "use a plain file");
  Text text{"file", path, {}};
  append_file(path, largest_file_text, text.bytes);
  check_enough(text, min_bytes);
  return text;
}

Span<const std::uint8_t> micro_batch_tokens(const Text& text, std::uint64_t seed, std::int64_t step,
                                            std::int64_t micro_batch, std::int64_t micro_batches,
                                            std::int64_t context) {
  ZP_CHECK(step >= 0 && context >= 1 && 0 <= micro_batch && micro_batch < micro_batches,
           ErrorCode::invalid_argument,
           "micro-batch " + std::to_string(micro_batch) + " of " + std::to_string(micro_batches) +
               " in step " + std::to_string(step) + " with context " + std::to_string(context) +
               " does not exist",
           "steps and micro-batches are numbered from 0",
           "pass step >= 0, context >= 1 and micro_batch < micro_batches");
  ZP_CHECK(context < numel(Span<const std::uint8_t>(text.bytes)), ErrorCode::config,
           "the text of " + text.path + " has " + std::to_string(text.bytes.size()) + " bytes, " +
               std::to_string(context) + " + 1 are needed",
           "a micro-batch is a window of context + 1 bytes",
           "use a longer text or a shorter context");
  const auto window = static_cast<std::uint64_t>(step * micro_batches + micro_batch);
  const auto length = static_cast<std::size_t>(context);
  const std::uint64_t offset =
      Philox(seed, window_stream).below(window, text.bytes.size() - length);
  return Span<const std::uint8_t>(text.bytes).subspan(offset, length + 1);
}

}  // namespace zeroproof::workload
