#pragma once
// Random access to bytes: a file read in bounded pieces, or memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/span.hpp"

namespace zeroproof {

class ByteSource {
 public:
  ByteSource(std::string label, std::uint64_t size) : label_(std::move(label)), size_(size) {}
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const std::string& label() const { return label_; }  ///< name in messages
  std::uint64_t size() const { return size_; }         ///< at the time of opening

  /// Fills `target` from position `offset`. Several threads may call at once. Errors (ErrorCode::io): the source has
  /// fewer bytes (or became shorter), or reading fails.
  virtual void read(std::uint64_t offset, Span<std::byte> target) const = 0;

 private:
  std::string label_;
  std::uint64_t size_;
};

/// A regular file. It is read, never mapped: a file that shrinks meanwhile is an error, not a signal.
/// Errors (ErrorCode::io): it is missing, may not be read, or is a directory, pipe or device.
std::unique_ptr<ByteSource> open_file_source(const std::string& path);

/// Content of a file that must be short. Errors (ErrorCode::io): as open_file_source; it has more
/// than most_bytes.
std::string read_small_file(const std::string& path, std::uint64_t most_bytes);

/// Memory, which must outlive the source.
std::unique_ptr<ByteSource> memory_source(Span<const std::byte> bytes, std::string label);

}  // namespace zeroproof
