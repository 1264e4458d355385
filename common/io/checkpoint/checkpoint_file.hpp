#pragma once
// A file of a checkpoint during a save: written front to back, hashed on the way, durable at its
// end. A block is filled and its chunks are hashed while the previous block is written.

#include <memory>
#include <string>

#include "common/io/checkpoint/checkpoint_image.hpp"
#include "common/io/checkpoint/chunk_hashes.hpp"
#include "common/io/checkpoint/write_behind.hpp"
#include "common/io/files/open_file.hpp"

namespace zeroproof {

class CheckpointFile {
 public:
  /// Creates it in an open folder. `where`: name of the folder in messages. buffer: as
  /// WriteBehind's. Errors (ErrorCode::io): a file of that name exists, or the folder is not
  /// writable.
  CheckpointFile(Disk& disk, int folder, const std::string& where, const std::string& name,
                 WriteBuffer* buffer = nullptr);

  /// Errors (ErrorCode::io): the disk is full or broken; reported here or by a later call, since writes are asynchronous.
  void write(Span<const std::byte> bytes);

  /// Values as they are, but for NaNs: a file has one value for all of them (R9). At an offset that
  /// is a multiple of 4. Errors: as above.
  void write(Span<const float> values);

  /// The whole file at once, instead of the calls above: directly from `bytes`, in large blocks.
  /// Errors: as above.
  void write(const CheckpointImage& image);

  /// Ends the writing and returns the record of the file, whose last blocks may still be in
  /// progress. Errors (ErrorCode::io): as write().
  FileRecord end();

  /// Makes the file durable. Its entry in the folder is not, until the folder is synced. Errors (ErrorCode::io): as
  /// write(); a failed sync is not repeated.
  FileRecord finish();

 private:
  /// The free rest of the chunk at the file's end; never empty.
  Span<std::byte> free_bytes();
  /// Marks num_bytes of it as filled. A full chunk is hashed, a full block is written.
  void fill(std::size_t num_bytes);
  void hash();
  void put();

  Disk& disk_;
  std::string label_;
  FileRecord record_;
  OpenFile file_;
  std::unique_ptr<WriteBehind> writer_;
  Span<std::byte> block_;  // the block being filled, at the file's end
  std::size_t filled_ = 0;
  std::size_t hashed_ = 0;  // whole chunks, except at the file's end
};

}  // namespace zeroproof
