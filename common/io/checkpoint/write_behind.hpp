#pragma once
// A file that is written block by block on its own thread, while the caller fills the next block;
// bypasses the page cache where the file system supports it.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/span.hpp"
#include "common/io/checkpoint/chunk_hashes.hpp"
#include "common/io/files/direct_writer.hpp"
#include "common/io/files/page_buffer.hpp"

namespace zeroproof {

/// Bytes per write: large, because a direct write costs the same processor time at any length if it
/// starts in huge pages; whole chunks.
inline constexpr std::int64_t write_block_bytes = 8 * chunk_bytes;

/// The blocks of a file that is written behind: one is filled, one is written, and two even out
/// their speeds. Reused between files, since the system fills new pages with zeros.
using WriteBuffer = std::array<PageBuffer, 4>;

class WriteBehind {
 public:
  /// disk, file: must be open for the lifetime of this object, without other writers. label: the
  /// file in messages. buffer: used by this object only; its own if null.
  WriteBehind(Disk& disk, int file, std::string label, WriteBuffer* buffer = nullptr);
  /// Drops data that are not written yet.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// The next block, of write_block_bytes, to be filled from its front: the same one until put().
  /// Waits for a free block. Errors (ErrorCode::io): the disk is full or broken.
  Span<std::byte> block();

  /// Appends its first `num_bytes` (at least one) to the file. All blocks but the last must be
  /// full.
  void put(std::size_t num_bytes);

  /// Waits until all of it is written to the file (not synced). Errors: as block().
  void finish();

 private:
  bool start();
  void run();
  void write(std::size_t block);
  void throw_if_broken() const;

  DirectWriter out_;  // used by the writer thread while it runs
  WriteBuffer own_;
  WriteBuffer& buffer_;
  std::array<std::size_t, std::tuple_size_v<WriteBuffer>> sizes_ = {};  // bytes of each block

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t put_ = 0, written_ = 0;  // blocks so far
  bool ends_ = false;
  bool broken_ = false;  // out_ failed; nothing more is written
  std::thread writer_;
};

}  // namespace zeroproof
