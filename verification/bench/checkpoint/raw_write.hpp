#pragma once

#include <cstdint>
#include <string>

#include "common/io/page_room.hpp"

namespace zeroproof::verification::bench {

/// What the disk can do with as many bytes as a checkpoint has, that are in memory already as the file is to have them.
class RawWrite {
 public:
  /// Errors: std::bad_alloc.
  explicit RawWrite(std::int64_t num_bytes);

  /// One file of them, in blocks of 8 MiB from huge pages, past the page cache where the file system lets it, made
  /// durable and removed. Seconds until it was durable. Errors (ErrorCode::io).
  double seconds(const std::string& path) const;

 private:
  PageRoom room_;
  std::size_t num_bytes_;
};

}  // namespace zeroproof::verification::bench
