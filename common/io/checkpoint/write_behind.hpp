#pragma once
// A file that is written block by block on a thread of its own, so that the next block is made meanwhile; past the page
// cache, where the file system lets it.

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

/// What is written at once: large, for a write past the page cache costs a processor the same whatever its length, if
/// it begins in huge pages; whole chunks.
inline constexpr std::int64_t write_block_bytes = 8 * chunk_bytes;

/// The blocks of a file that is written behind: one is filled, one is written, and two even out their speeds. Whoever
/// writes file after file keeps it, for the system fills new pages with zeros.
using WriteBuffer = std::array<PageBuffer, 4>;

class WriteBehind {
 public:
  /// disk, file: open while this lives; nobody else writes to it. label: the file in messages. room: of nobody else
  /// meanwhile; its own if null.
  WriteBehind(Disk& disk, int file, std::string label, WriteBuffer* room = nullptr);
  /// What is not written by then is not.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// The next block, of write_block_bytes, to be filled from its front: the same one until put(). Waits for room.
  /// Errors (ErrorCode::io): the disk is full or broken.
  Span<std::byte> block();

  /// Its first `num_bytes` (at least one) are the file's next. Of all blocks but the last, all bytes are put.
  void put(std::size_t num_bytes);

  /// Waits until all of it is written: to the file, not for good. Errors: as block().
  void finish();

 private:
  bool start();
  void run();
  void write(std::size_t block);
  void throw_if_broken() const;

  DirectWriter out_;  // the writer's, once there is one that is not at its end
  WriteBuffer own_;
  WriteBuffer& room_;
  std::array<std::size_t, std::tuple_size_v<WriteBuffer>> sizes_ = {};  // bytes of each block

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t put_ = 0, written_ = 0;  // blocks so far
  bool ends_ = false;
  bool broken_ = false;  // out_ is; nobody writes any more
  std::thread writer_;
};

}  // namespace zeroproof
