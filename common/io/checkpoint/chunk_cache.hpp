#pragma once
// The recently read chunks of a checkpoint with any number of files: reads alternate between
// tensors and between states.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "common/base/span.hpp"

namespace zeroproof {

class ChunkCache {
 public:
  /// Calls `use` with a chunk of a file, which `load` fills on a miss. Exceptions of `load` are
  /// passed on, and the entry is dropped. One at a time.
  void use(const void* file, std::int64_t chunk,
           const std::function<void(std::vector<std::byte>&)>& load,
           const std::function<void(Span<const std::byte>)>& use);

 private:
  struct Entry {
    const void* file = nullptr;
    std::int64_t chunk = 0;
    std::uint64_t used = 0;  ///< later ones are larger
    std::vector<std::byte> bytes = {};
  };
  static constexpr std::size_t most = 16;

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint64_t uses_ = 0;
};

}  // namespace zeroproof
