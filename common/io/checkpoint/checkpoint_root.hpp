#pragma once
// A folder of checkpoints: how one appears, and how one goes, in a single step each.
//
//     DIR/step-00000050/            a checkpoint; it has its manifest, or it is none
//     DIR/.step-00000060.tmp-NONCE/ one that is being written, or removed: nobody reads it
//     DIR/LATEST                    the step that was saved last, for people and scripts
//     DIR/lock                      who is saving here

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/io/checkpoint/checkpoint_file.hpp"
#include "common/io/files/open_file.hpp"

namespace zeroproof {

/// A checkpoint that is being written.
struct UnfinishedCheckpoint {
  std::int64_t step = 0;
  std::string name;   ///< of its folder
  std::string label;  ///< as messages name it
  OpenFile folder;
};

class CheckpointRoot {
 public:
  /// For reading. Errors (ErrorCode::io): it is missing or no folder.
  CheckpointRoot(const std::string& path, Disk& disk = system_disk());

  /// For saving: made if it is missing; whoever saves here holds its lock, and removes what an interrupted save left.
  /// Errors (ErrorCode::io): it cannot be made or written; somebody else holds the lock (who is in the message).
  static CheckpointRoot lock(const std::string& path, Disk& disk = system_disk());

  const std::string& path() const { return path_; }

  /// Steps that have a folder, ascending: whether what is in it is whole says its manifest.
  std::vector<std::int64_t> steps() const;

  /// What LATEST says; nothing if there is none. Errors: damaged, if it says nothing that was ever written there.
  std::optional<std::int64_t> latest() const;

  /// The folder of a checkpoint. Errors: io, if there is none; damaged, if there is something else of its name.
  OpenFile open(std::int64_t step) const;

  /// Makes the folder of a new one, empty. Errors (ErrorCode::io).
  UnfinishedCheckpoint begin(std::int64_t step) const;
  /// The same folder, on another rank. Errors (ErrorCode::io): there is none.
  UnfinishedCheckpoint join(std::int64_t step, const std::string& name) const;

  /// Makes it the checkpoint of its step, for good: its files and their entries are durable before, the new name when
  /// this returns. If there was one of that step, the two change places, and the old one is removed. Errors
  /// (ErrorCode::io): then nothing but LATEST may be another, and the folder, under either name, is whole.
  void commit(UnfinishedCheckpoint& checkpoint) const;

  /// Removes a checkpoint: from one moment to the next there is none, whatever happens to its files then. Errors
  /// (ErrorCode::io): there is none, or it cannot be removed.
  void remove(std::int64_t step) const;

  /// Removes what is unfinished, as far as that is possible; for whoever gives up.
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
