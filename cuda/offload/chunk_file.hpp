#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/exec.hpp"
#include "common/layout/flat_layout.hpp"
#include "common/step/offload.hpp"
#include "cuda/offload/chunk_memory.hpp"
#include "cuda/offload/unnamed_file.hpp"

namespace zeroproof::cuda {

/// Chunks in files that are already unlinked when this is constructed, so they disappear with the
/// process. A system lets only one thread at a time write to a file, and a core is slow with data
/// in the caches of another one, so a chunk is split into parts of neighbouring elements, each in
/// its own file, and a thread of the caller's loop copies the parts that it updates. Every part is
/// recorded by the version written last and its XXH3-128, so that an old, swapped or damaged chunk
/// is never accepted.
class ChunkFile {
 public:
  /// numels: of the chunks, none longer than the first; whole blocks, if a buffer has values for
  /// blocks.
  /// Errors: io if such files cannot be created.
  ChunkFile(const std::string& folder, const std::vector<std::int64_t>& numels,
            std::vector<OffloadedBuffer> buffers, const Exec& exec);
  ~ChunkFile();
  ChunkFile(const ChunkFile&) = delete;
  ChunkFile& operator=(const ChunkFile&) = delete;

  /// Memory through which chunks pass, and the version and number of the chunk in it.
  struct Slot {
    ChunkMemory memory;
    std::int64_t chunk = -1;
    std::uint64_t version = 0;
  };

  /// Requests read-ahead of a chunk from the system, unless it seems to be in memory.
  void read_ahead(std::int64_t chunk) const;
  /// Errors: damaged, if the file does not hold the last data written.
  void read(std::int64_t chunk, Slot& slot) const;
  /// Declares that the slot is about to be filled with a chunk's next version.
  void take(std::int64_t chunk, Slot& slot) const;
  /// Errors: io; internal, if the slot does not hold the chunk's present version: it is old, or was
  /// written before.
  void write(std::int64_t chunk, Slot& slot);

  /// Bytes of all parts.
  std::int64_t num_bytes() const {
    return num_parts * stride_ * static_cast<std::int64_t>(numels_.size());
  }

 private:
  static constexpr std::int64_t num_parts = Offload::state_files;
  struct Header {
    std::uint64_t chunk, version;
    Digest digest;  ///< of the digests of the part's buffers
    bool operator==(const Header&) const = default;
  };
  struct Part {
    std::unique_ptr<UnnamedFile> file;
    const std::byte* mapped = nullptr;
    std::vector<Header> written;  // [chunks]
  };
  /// The elements of a part of a chunk: parts end at cache lines of every buffer, and at blocks of
  /// state (R25).
  FlatRange elements(std::int64_t part, std::int64_t chunk) const;
  void read_part(std::int64_t part, std::int64_t chunk, std::byte* memory) const;
  void write_part(std::int64_t part, std::int64_t chunk, const std::byte* memory);
  std::int64_t numel(std::int64_t chunk) const { return numels_[chunk]; }
  std::uint64_t version_of(std::int64_t chunk) const { return parts_[0].written[chunk].version; }

  std::vector<std::int64_t> numels_;
  std::vector<OffloadedBuffer> buffers_;
  std::int64_t unit_, stride_ = 0;  ///< elements kept in one part; bytes of the first chunk's
  int num_threads_;
  std::array<Part, num_parts> parts_;
};

}  // namespace zeroproof::cuda
