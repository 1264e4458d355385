#pragma once
// Window memory for ranks that are threads of one process (internal to the communicators).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/guarded_buffer.hpp"
#include "common/comm/communicator.hpp"

namespace zeroproof {

/// Blocks of given lengths in one allocation, each on its own cache lines, initially 0xFF.
class SharedBlocks {
 public:
  explicit SharedBlocks(const std::vector<std::int64_t>& sizes);
  Span<std::byte> of(int rank) const;

 private:
  GuardedBuffer memory_;                 ///< on large pages if large
  std::vector<Span<std::byte>> blocks_;  // [world_size]
};

/// A window over them; `comm` is the communicator of the window and must outlive it.
std::unique_ptr<SharedWindow> make_window_over(std::shared_ptr<SharedBlocks> blocks,
                                               Communicator& comm);

}  // namespace zeroproof
