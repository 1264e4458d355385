#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "cuda/offload/chunk_memory.hpp"
#include "cuda/offload/unnamed_file.hpp"

namespace zeroproof::cuda {

/// Chunks in one file that has no name any more when this is made: it goes with the process. Every chunk is known here
/// by the version that was written last and its XXH3-128, so that a chunk that is old, or another one, or damaged, is
/// never taken for what was written. One thread for each chunk at a time.
class ChunkFile {
 public:
  /// numels: of the chunks, none longer than the first. Errors: io if there can be no such file.
  ChunkFile(const std::string& folder, const std::vector<std::int64_t>& numels, std::int64_t num_buffers);
  ~ChunkFile();
  ChunkFile(const ChunkFile&) = delete;
  ChunkFile& operator=(const ChunkFile&) = delete;

  /// Memory that a chunk passes through, and which version of which chunk it holds.
  struct Slot {
    ChunkMemory memory;
    std::int64_t chunk = -1;
    std::uint64_t version = 0;
  };

  /// Asks the system to have a chunk ready.
  void read_ahead(std::int64_t chunk) const;
  /// Errors: damaged, if the file does not hold what was written there last.
  void read(std::int64_t chunk, Slot& slot) const;
  /// The slot is about to be filled with a chunk's next version.
  void take(std::int64_t chunk, Slot& slot) const;
  /// Errors: io; internal, if the slot does not hold the chunk's present version: it is old, or was written before.
  void write(std::int64_t chunk, Slot& slot);

  std::int64_t num_bytes() const { return file_.num_bytes(); }

 private:
  struct Header {
    std::uint64_t chunk, version;
    Digest digest;  ///< of the buffers
    bool operator==(const Header&) const = default;
  };
  std::int64_t bytes_of(std::int64_t chunk) const;

  std::vector<std::int64_t> numels_;
  std::int64_t num_buffers_, stride_;
  UnnamedFile file_;
  std::vector<Header> written_;  // [chunks]
  const std::byte* mapped_ = nullptr;
};

}  // namespace zeroproof::cuda
