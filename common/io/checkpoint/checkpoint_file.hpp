#pragma once
// A file of a checkpoint while it is written: front to back, hashed on the way, durable at its end. A block is made
// and its chunks are hashed while the one before is written.

#include <memory>
#include <string>

#include "common/io/checkpoint/checkpoint_image.hpp"
#include "common/io/checkpoint/chunk_hashes.hpp"
#include "common/io/checkpoint/write_behind.hpp"
#include "common/io/files/open_file.hpp"

namespace zeroproof {

class CheckpointFile {
 public:
  /// Creates it in a folder that is open. `where`: the folder as messages name it. room: as WriteBehind's. Errors
  /// (ErrorCode::io): there is one of that name, or the folder takes none.
  CheckpointFile(Disk& disk, int folder, const std::string& where, const std::string& name,
                 WriteBuffer* room = nullptr);

  /// Errors (ErrorCode::io): the disk is full or broken; told here or by a later call, as it writes behind.
  void write(Span<const std::byte> bytes);

  /// As they are, but for NaNs: a file has one value for all of them (R9). At an offset that 4 divides. Errors: as
  /// above.
  void write(Span<const float> values);

  /// All of the file, in place of what is above: from where it is, in large blocks. Errors: as above.
  void write(const CheckpointImage& image);

  /// No more is written: what the file will be, whose end may be on its way to the disk still. Errors
  /// (ErrorCode::io): as write().
  FileRecord end();

  /// Makes the file durable. Its entry in the folder is not, until the folder is synced. Errors (ErrorCode::io): as
  /// write(); a failed sync is not tried again.
  FileRecord finish();

 private:
  /// What is left of the chunk at the file's end; never empty.
  Span<std::byte> room();
  /// So many of these bytes have their values. A chunk that is full is hashed, a block that is full is written.
  void fill(std::size_t num_bytes);
  void hash();
  void put();

  Disk& disk_;
  std::string label_;
  FileRecord record_;
  OpenFile file_;
  std::unique_ptr<WriteBehind> writer_;
  Span<std::byte> block_;  // of the file's end, that is being filled
  std::size_t filled_ = 0;
  std::size_t hashed_ = 0;  // whole chunks, but at the file's end
};

}  // namespace zeroproof
