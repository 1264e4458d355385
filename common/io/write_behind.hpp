#pragma once
// A file that is written block by block on a thread of its own, so that the next block is made meanwhile; past the page
// cache, where the file system lets it.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/span.hpp"
#include "common/io/chunk_hashes.hpp"
#include "common/io/direct_writer.hpp"

namespace zeroproof {

class WriteBehind {
 public:
  /// disk, file: open while this lives; nobody else writes to it. label: the file in messages.
  WriteBehind(Disk& disk, int file, std::string label);
  /// What is not written by then is not.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// The next block, of chunk_bytes, to be filled from its front: the same one until put(). Waits for room. Errors
  /// (ErrorCode::io): the disk is full or broken.
  Span<std::byte> block();

  /// Its first `num_bytes` (at least one) are the file's next. Of all blocks but the last, all bytes are put.
  void put(std::size_t num_bytes);

  /// Waits until all of it is written: to the file, not for good. Errors: as block().
  void finish();

 private:
  struct Free {
    void operator()(std::byte* block) const;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> bytes;
    std::size_t num_bytes = 0;
  };

  bool start();
  void run();
  void write(const Block& block);
  void throw_if_broken() const;

  DirectWriter out_;             // the writer's, once there is one that is not at its end
  std::array<Block, 4> blocks_;  // one is filled, one is written, and two even out their speeds

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t put_ = 0, written_ = 0;  // blocks so far
  bool ends_ = false;
  bool broken_ = false;  // out_ is; nobody writes any more
  std::thread writer_;
};

}  // namespace zeroproof
