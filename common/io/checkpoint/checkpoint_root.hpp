#pragma once
// A folder of checkpoints: a checkpoint appears and disappears in a single step.
//
//     DIR/step-00000050/            a checkpoint, if it has its manifest
//     DIR/.step-00000060.tmp-NONCE/ one in the course of a save or a removal; never read
//     DIR/LATEST                    the step that was saved last, for people and scripts
//     DIR/lock                      the process that saves here

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/io/checkpoint/checkpoint_file.hpp"
#include "common/io/files/open_file.hpp"

namespace zeroproof {

/// An unfinished checkpoint.
struct UnfinishedCheckpoint {
  std::int64_t step = 0;
  std::string name;   ///< name of its folder
  std::string label;  ///< name in messages
  OpenFile folder;
};

class CheckpointRoot {
 public:
  /// For reading. Errors (ErrorCode::io): it is missing or not a folder.
  CheckpointRoot(const std::string& path, Disk& disk = system_disk());

  /// For saving: creates the folder if it is missing, locks it, and removes the rest of an
  /// interrupted save. Errors (ErrorCode::io): it cannot be created or written; another process
  /// holds the lock (named in the message).
  static CheckpointRoot lock(const std::string& path, Disk& disk = system_disk());

  const std::string& path() const { return path_; }

  /// Steps that have a folder, ascending. Whether a checkpoint is complete is recorded in its
  /// manifest.
  std::vector<std::int64_t> steps() const;

  /// The step in LATEST; nothing if there is none. Errors: damaged, if the content is invalid.
  std::optional<std::int64_t> latest() const;

  /// The folder of a checkpoint. Errors: io, if there is none; damaged, if the name is not a
  /// folder's.
  OpenFile open(std::int64_t step) const;

  /// Creates the folder of a new one, empty. Errors (ErrorCode::io).
  UnfinishedCheckpoint begin(std::int64_t step) const;
  /// The same folder, on another rank. Errors (ErrorCode::io): there is none.
  UnfinishedCheckpoint join(std::int64_t step, const std::string& name) const;

  /// Makes it the checkpoint of its step: its files and their entries are durable before, the new
  /// name when this returns. An existing checkpoint of that step is exchanged with it and removed.
  /// Errors (ErrorCode::io): then only LATEST may have changed, and the folder, under either name,
  /// is complete.
  void commit(UnfinishedCheckpoint& checkpoint) const;

  /// Removes a checkpoint: in one step it is no longer a checkpoint, then its files are removed.
  /// Errors (ErrorCode::io): there is none, or it cannot be removed.
  void remove(std::int64_t step) const;

  /// Removes an unfinished checkpoint, as far as possible; for use after an error.
  void sweep() const noexcept;

 private:
  bool remove_unfinished(const std::string& name) const noexcept;
  void sync_root() const;
  void write_latest(std::int64_t step) const;

  Disk& disk_;
  std::string path_;
  OpenFile root_;
  OpenFile lock_;
};

}  // namespace zeroproof
