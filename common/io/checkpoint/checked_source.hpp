#pragma once
// A file whose chunks have hashes: bytes are returned only after their chunk's hash was verified.

#include <memory>
#include <string>
#include <vector>

#include "common/io/checkpoint/chunk_cache.hpp"
#include "common/io/checkpoint/chunk_hashes.hpp"
#include "common/io/files/byte_source.hpp"
#include "common/io/files/open_file.hpp"

namespace zeroproof {

class CheckedSource final : public ByteSource {
 public:
  /// Opens it in an open folder. `where`: name of the folder in messages. Errors: io, if it is missing, cannot
  /// be read, or is no regular file; damaged, if it has another size.
  /// chunks: of all files of the checkpoint; keeps the chunks that were read last.
  CheckedSource(Disk& disk, int folder, const std::string& where, FileRecord record,
                std::shared_ptr<ChunkCache> chunks);

  /// Errors: io, if it cannot be read; damaged, naming the chunk, if it has another hash.
  void read(std::uint64_t offset, Span<std::byte> target) const override;

 private:
  void load(std::int64_t chunk, std::vector<std::byte>& bytes) const;

  Disk& disk_;
  FileRecord record_;
  OpenFile file_;
  std::shared_ptr<ChunkCache> chunks_;
};

}  // namespace zeroproof
