#pragma once
// A file that appears under its name only when it is complete.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof {

/// Writes to a temporary file in the same folder; commit() renames it, the destructor removes it otherwise. An
/// existing file stays as it is until then. A symbolic link is followed: its target is replaced.
class ReplacingFile {
 public:
  /// Errors (ErrorCode::io): the folder is missing or is not writable, or `path` is not
  /// a regular file (replacing a device by a file would damage the system).
  explicit ReplacingFile(const std::string& path);
  ~ReplacingFile();
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  const std::string& path() const { return path_; }

  /// Errors (ErrorCode::io): the disk is full or broken.
  void write(std::int64_t offset, Span<const std::byte> bytes);

  /// Flushes to disk and renames. Errors (ErrorCode::io): either fails.
  void commit();

 private:
  std::string path_, temporary_;
  int handle_ = -1;
};

}  // namespace zeroproof
