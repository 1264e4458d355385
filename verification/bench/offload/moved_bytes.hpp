#pragma once

#include <cstdint>
#include <string>

namespace zeroproof::verification::bench {

/// A file without a name whose bytes are moved in chunks and not looked at: what a step that keeps state in a file
/// would take if it did nothing else.
class MovedBytes {
 public:
  /// num_bytes: written here once. Errors: io; unavailable for memory.
  MovedBytes(const std::string& folder, std::int64_t num_bytes, std::int64_t chunk_bytes);
  ~MovedBytes();
  MovedBytes(const MovedBytes&) = delete;
  MovedBytes& operator=(const MovedBytes&) = delete;

  /// Reads every chunk and writes it again, the next one being read by a thread of its own meanwhile.
  void move();

 private:
  void read(std::int64_t chunk, void* block) const;
  void write(std::int64_t chunk, const void* block) const;
  std::int64_t bytes_of(std::int64_t chunk) const;

  std::string folder_;
  std::int64_t num_bytes_, chunk_bytes_, num_chunks_;
  int file_ = -1;
};

}  // namespace zeroproof::verification::bench
