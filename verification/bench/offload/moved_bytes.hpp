#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/guarded_buffer.hpp"

namespace zeroproof::verification::bench {

/// Files without a name whose bytes are moved in chunks and not looked at: what a step that keeps state in a file would
/// take if it did nothing else.
class MovedBytes {
 public:
  /// num_bytes: written here once, a share of every thread in a file of its own. Errors: io; unavailable for memory.
  MovedBytes(const std::string& folder, std::int64_t num_bytes, std::int64_t chunk_bytes, int threads);
  ~MovedBytes();
  MovedBytes(const MovedBytes&) = delete;
  MovedBytes& operator=(const MovedBytes&) = delete;

  /// Every thread reads its share of every chunk and writes it again, through memory that no other one touches.
  void move();

 private:
  struct Share {
    int file = -1;
    GuardedBuffer block;
  };
  void move(const Share& share, bool first) const;

  std::string folder_;
  std::int64_t share_bytes_, block_bytes_;
  std::vector<Share> shares_;  // [threads]
};

}  // namespace zeroproof::verification::bench
