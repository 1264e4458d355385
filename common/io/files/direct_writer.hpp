#pragma once
// A file that grows at its end, past the page cache where the file system lets it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/span.hpp"
#include "common/io/files/disk.hpp"

namespace zeroproof {

/// What writes past the page cache begin at and have the length of: the page, which is no smaller than a disk's block.
inline constexpr std::size_t direct_alignment = 4096;

/// One thread at a time.
class DirectWriter {
 public:
  /// disk, file: open while this lives; nobody else writes to it. label: the file in messages.
  DirectWriter(Disk& disk, int file, std::string label);

  /// From here on past the page cache, until something comes that does not begin and end at the alignment. Nothing
  /// happens where the file system has no such writes.
  void go_past_cache();

  /// All of it, in as many calls as the disk wants. False if the disk is full or broken; the rest is not written then,
  /// and nothing is that comes later.
  bool write(Span<const std::byte> bytes);

  /// Errors (ErrorCode::io): what a write was false for.
  void throw_if_broken() const;

 private:
  bool broken() const { return error_ != 0 || took_nothing_; }

  Disk& disk_;
  const int file_;
  const std::string label_;
  bool direct_ = false;
  std::int64_t num_bytes_ = 0;  // that the file has
  int error_ = 0;               // errno of the write that failed
  bool took_nothing_ = false;
};

}  // namespace zeroproof
