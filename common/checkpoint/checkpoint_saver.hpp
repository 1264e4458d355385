#pragma once
// Saves the state of a sharded optimizer: every rank writes the elements it owns, and rank 0
// commits when all files are durable.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/checkpoint/own_pieces.hpp"
#include "common/checkpoint/rank_report.hpp"
#include "common/comm/communicator.hpp"
#include "common/io/checkpoint/checkpoint_image.hpp"
#include "common/io/checkpoint/checkpoint_root.hpp"
#include "common/io/checkpoint/write_behind.hpp"
#include "common/io/json.hpp"

namespace zeroproof {

/// Description of a checkpoint besides the state's elements.
struct CheckpointContent {
  std::string contract;   ///< version of the numeric contract
  std::string run;        ///< 32 hexadecimal digits
  std::int64_t step = 0;  ///< steps made so far
  Json about = Json::object();
};

enum class SaveMode {
  synchronous,  ///< save() returns when the checkpoint is committed
  asynchronous  ///< save() returns when the state is copied; one thread per rank writes it, one of rank 0 commits
};

/// All calls are collective over `world`. A failure on one rank is the same Error on all of them,
/// naming the rank: ErrorCode::io of a file, anything else unchanged. The checkpoint in progress is
/// then discarded, and training may continue.
class CheckpointSaver {
 public:
  /// Rank 0 locks the folder for the lifetime of this object. keep: checkpoints to keep after a
  /// save, 0 for all.
  CheckpointSaver(const std::string& folder, Communicator& world, int keep, SaveMode mode,
                  Disk& disk = system_disk());
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Call between two steps. `whole`: the undistributed layout, which must outlive this object.
  /// Waits for an asynchronous save that has not ended, and throws its error.
  void save(DistributedOptimizer& optimizer, const OptimizerSetup& setup, const FlatLayout& whole,
            const CheckpointContent& content);

  /// Call after a step: commits an asynchronous save that all ranks have written, and removes older
  /// ones, in a thread of rank 0; or finishes a committed one. False while a save is still in
  /// progress.
  bool advance();

  /// Waits until no save is in progress.
  void finish();

 private:
  struct Pending;

  void write(Pending& pending);
  void begin_commit();
  void describe(Pending& pending, const std::vector<RankReport>& reports) const;
  void commit(Pending& pending) const;
  void end_commit();
  void abandon() noexcept;

  std::string folder_;
  Communicator& world_;
  int keep_;
  SaveMode mode_;
  Disk& disk_;
  std::optional<CheckpointRoot> root_;  // on rank 0, locked
  CheckpointImage image_;               // copy of this rank's elements during an asynchronous save
  WriteBuffer write_buffer_;            // of a synchronous save
  std::unique_ptr<Pending> pending_;
};

}  // namespace zeroproof
