#pragma once
// The training text of workloads. default_text.txt is a fixed copy of an earlier version of this
// project's contract and notes: it does not change with them, so that hashes of the main job are
// the same on every machine and in every version.

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof::workload {

struct Text {
  std::string kind;  ///< "file", or that of a recording
  std::string path;
  std::vector<std::uint8_t> bytes;
};

/// Bytes beyond this many of a file are not read.
inline constexpr std::int64_t largest_file_text = std::int64_t{256} << 20;

/// The bytes of a regular file unchanged, the first largest_file_text of them.
///
/// Errors: config if it is missing, not a regular file, unreadable, empty or shorter than
/// min_bytes.
Text read_text_file(const std::string& path, std::int64_t min_bytes);

/// The text window of micro-batch `micro_batch` of `micro_batches` in step `step`, the same at any
/// world size.
///
/// Shapes   result: [context + 1], a view of text.bytes; its offset is
///          Philox(seed, 1).below(step * micro_batches + micro_batch, bytes - context).
/// Errors   config if the text has fewer than context + 1 bytes; invalid_argument unless step >= 0,
///          context >= 1 and 0 <= micro_batch < micro_batches.
Span<const std::uint8_t> micro_batch_tokens(const Text& text, std::uint64_t seed, std::int64_t step,
                                            std::int64_t micro_batch, std::int64_t micro_batches,
                                            std::int64_t context);

}  // namespace zeroproof::workload
