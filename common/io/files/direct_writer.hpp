#pragma once
// A file that grows at its end, written past the page cache where the file system supports it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/span.hpp"
#include "common/io/files/disk.hpp"

namespace zeroproof {

/// Alignment of begin and length of direct writes: the page, which is no smaller than a disk's
/// block.
inline constexpr std::size_t direct_alignment = 4096;

/// One thread at a time.
class DirectWriter {
 public:
  /// disk, file: must be open for the lifetime of this object, without other writers. label: the
  /// file in messages.
  DirectWriter(Disk& disk, int file, std::string label);

  /// Bypasses the page cache from now on, until a write that does not begin and end at the
  /// alignment. No effect where the file system does not support it.
  void go_past_cache();

  /// Writes all of it, in as many calls as needed. False if the disk is full or broken; the rest
  /// and all later writes are then dropped.
  bool write(Span<const std::byte> bytes);

  /// Errors (ErrorCode::io): the failure of a write that returned false.
  void throw_if_broken() const;

 private:
  bool broken() const { return error_ != 0 || took_nothing_; }

  Disk& disk_;
  const int file_;
  const std::string label_;
  bool direct_ = false;
  std::int64_t num_bytes_ = 0;  // length of the file
  int error_ = 0;               // errno of the failed write
  bool took_nothing_ = false;
};

}  // namespace zeroproof
