#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/io/files/page_room.hpp"

namespace zeroproof::verification::bench {

/// A page costs a write past the page cache the same whatever its size.
enum class RawPages { ordinary, huge };

/// What the disk can do with as many bytes as a checkpoint has, that are in memory already as the file is to have them.
class RawWrite {
 public:
  /// Errors: std::bad_alloc.
  RawWrite(std::int64_t num_bytes, RawPages pages);

  /// One file of them, in blocks of 8 MiB, past the page cache where the file system lets it, made durable and removed.
  /// Seconds until it was durable. Errors (ErrorCode::io).
  double seconds(const std::string& path) const;

 private:
  std::size_t num_bytes_;
  PageRoom huge_;
  std::unique_ptr<std::byte, decltype(&std::free)> ordinary_{nullptr, &std::free};
  std::byte* bytes_ = nullptr;  // [num_bytes_], of one of them
};

}  // namespace zeroproof::verification::bench
