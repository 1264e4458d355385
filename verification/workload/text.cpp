#include "verification/workload/text.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "common/base/error.hpp"
#include "common/base/philox.hpp"

namespace zeroproof::workload {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t window_stream = 1;

constexpr std::array<std::string_view, 7> folders = {"common",    "cuda",  "notebooks",   "papers",
                                                     "reference", "tests", "verification"};
constexpr std::array<std::string_view, 8> extensions = {".md",    ".hpp", ".cpp",  ".txt",
                                                        ".cmake", ".cu",  ".toml", ".sh"};

// Appends up to `most` bytes of a file.
void append_file(const fs::path& path, std::int64_t most, std::vector<std::uint8_t>& bytes) {
  std::ifstream file(path, std::ios::binary);
  ZP_CHECK(file.is_open(), ErrorCode::config, "text file " + path.string() + " cannot be opened",
           "training needs its bytes", "check its permissions");
  std::array<char, 1 << 16> piece;
  while (most > 0 && !file.eof()) {
    file.read(piece.data(), std::min<std::int64_t>(most, static_cast<std::int64_t>(piece.size())));
    const auto count = file.gcount();
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + count);
    most -= count;
    ZP_CHECK(!file.bad() && (count > 0 || file.eof()), ErrorCode::config,
             "text file " + path.string() + " cannot be read", "training needs its bytes",
             "check that it is a plain file on a working disk");
  }
}

void check_enough(const Text& text, std::int64_t min_bytes) {
  const auto found = static_cast<std::int64_t>(text.bytes.size());
  const std::int64_t needed = std::max<std::int64_t>(min_bytes, 1);
  ZP_CHECK(found >= needed, ErrorCode::config,
           "the text of " + text.path + " has " + std::to_string(found) + " bytes but " +
               std::to_string(needed) + " are needed",
           "micro-batches are windows of it", "use a longer text");
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

bool wanted_file(const fs::directory_entry& entry) {
  return entry.is_regular_file() && !entry.is_symlink() && !hidden(entry.path()) &&
         std::ranges::find(extensions, entry.path().extension().string()) != extensions.end();
}

// Adds the wanted files below `folder`, as paths relative to `root` with "/" between their parts.
void collect(const fs::path& root, const fs::path& folder, bool recursive, std::vector<std::string>& paths) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (wanted_file(entry)) {
      paths.push_back(entry.path().lexically_relative(root).generic_string());
    } else if (recursive && entry.is_directory() && !entry.is_symlink() && !hidden(entry.path()) &&
               entry.path().filename() != "build") {
      collect(root, entry.path(), true, paths);
    }
  }
}

std::vector<std::string> project_files(const fs::path& root) {
  std::vector<std::string> paths;
  try {
    collect(root, root, false, paths);
    for (const std::string_view folder : folders) {
      const fs::path path = root / folder;
      if (fs::is_directory(fs::symlink_status(path))) collect(root, path, true, paths);
    }
  } catch (const fs::filesystem_error& error) {
    fail(ErrorCode::config,
         "source directory " + root.string() + " cannot be listed: " + error.code().message(),
         "its files are the text", "check its permissions or name a text file");
  }
  std::ranges::sort(paths);  // a directory lists its entries in any order
  return paths;
}

}  // namespace

Text read_text_file(const std::string& path, std::int64_t min_bytes) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  ZP_CHECK(fs::exists(status), ErrorCode::config, "text file " + path + " was not found",
           "training needs its bytes", "check the path");
  ZP_CHECK(fs::is_regular_file(status), ErrorCode::config,
           "text file " + path + (fs::is_directory(status) ? " is a directory" : " is not a regular file"),
           "a run must be able to read the same bytes again", "name a plain file");
  Text text{"file", path, {}};
  append_file(path, largest_file_text, text.bytes);
  check_enough(text, min_bytes);
  return text;
}

Text project_text(const std::string& source_dir, std::int64_t min_bytes) {
  std::error_code ignored;
  const fs::path root(source_dir);
  ZP_CHECK(fs::is_directory(root, ignored), ErrorCode::config,
           "source directory " + source_dir + " was not found", "its files are the text",
           "name a text file, or run where the sources are");
  Text text{"project", source_dir, {}};
  for (const std::string& path : project_files(root)) {
    append_file(root / path, largest_project_text - static_cast<std::int64_t>(text.bytes.size()), text.bytes);
  }
  check_enough(text, min_bytes);
  return text;
}

Span<const std::uint8_t> micro_batch_tokens(const Text& text, std::uint64_t seed, std::int64_t step,
                                            std::int64_t micro_batch, std::int64_t micro_batches,
                                            std::int64_t context) {
  ZP_CHECK(
      step >= 0 && context >= 1 && 0 <= micro_batch && micro_batch < micro_batches,
      ErrorCode::invalid_argument,
      "micro-batch " + std::to_string(micro_batch) + " of " + std::to_string(micro_batches) + " in step " +
          std::to_string(step) + " with context " + std::to_string(context) + " does not exist",
      "steps and micro-batches count from 0", "pass step >= 0, context >= 1 and micro_batch < micro_batches");
  ZP_CHECK(context < numel(Span<const std::uint8_t>(text.bytes)), ErrorCode::config,
           "the text of " + text.path + " has " + std::to_string(text.bytes.size()) + " bytes but " +
               std::to_string(context) + " + 1 are needed",
           "a micro-batch is a window of context + 1 bytes", "use a longer text or a shorter context");
  const auto window = static_cast<std::uint64_t>(step * micro_batches + micro_batch);
  const auto length = static_cast<std::size_t>(context);
  const std::uint64_t offset = Philox(seed, window_stream).below(window, text.bytes.size() - length);
  return Span<const std::uint8_t>(text.bytes).subspan(offset, length + 1);
}

}  // namespace zeroproof::workload
