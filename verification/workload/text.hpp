#pragma once
// The bytes a workload trains on: a file, or the project's own documentation and sources.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::workload {

struct Text {
  std::string kind;  ///< "file" or "project"
  std::string path;  ///< of the file, or of the source directory
  std::vector<std::uint8_t> bytes;
};

/// Bytes beyond this many of a single file are not read.
inline constexpr std::int64_t largest_file_text = std::int64_t{256} << 20;

/// Bytes beyond this many of the project's files are not read.
inline constexpr std::int64_t largest_project_text = std::int64_t{4} << 20;

/// The bytes of a regular file as they are, the first largest_file_text of them.
///
/// Errors: config if it is missing, not a regular file, unreadable, empty or shorter than min_bytes.
Text read_text_file(const std::string& path, std::int64_t min_bytes);

/// The *.md, *.hpp, *.cpp, *.txt, *.cmake, *.cu, *.toml and *.sh files of the top level and of everything
/// below common, reference, cuda, verification, tests, papers and notebooks, one after another in byte order
/// of their relative paths, the first largest_project_text bytes. Left out: symbolic links, directories
/// called "build", and names that start with a dot. Changing the sources changes the text, so recorded
/// results name a file.
///
/// Errors: config if source_dir is not a directory, a file is unreadable, or fewer than min_bytes were found.
Text project_text(const std::string& source_dir, std::int64_t min_bytes);

/// The window of micro-batch `micro_batch` of `micro_batches` in step `step`, the same at any world size.
///
/// Shapes   result: [context + 1], a view of text.bytes; its offset is
///          Philox(seed, 1).below(step * micro_batches + micro_batch, bytes - context).
/// Errors   config if the text has fewer than context + 1 bytes; invalid_argument unless step >= 0,
///          context >= 1 and 0 <= micro_batch < micro_batches.
Span<const std::uint8_t> micro_batch_tokens(const Text& text, std::uint64_t seed, std::int64_t step,
                                            std::int64_t micro_batch, std::int64_t micro_batches,
                                            std::int64_t context);

}  // namespace zeroproof::workload
