#pragma once
// Saves the state of a sharded optimizer: every rank writes what it owns, and one of them commits when all of it is
// durable.

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

/// What a checkpoint says besides the state's elements.
struct CheckpointContent {
  std::string contract;   ///< version of the numeric contract
  std::string run;        ///< 32 hexadecimal digits
  std::int64_t step = 0;  ///< steps made so far
  Json about = Json::object();
};

enum class SaveMode {
  synchronous,  ///< save() returns when the checkpoint is committed
  asynchronous  ///< save() returns when the state is copied; a thread of each rank writes it, and one of rank 0 commits
};

/// All calls are collective over `world`, and whatever goes wrong on one rank is the same Error on all of them, naming
/// the rank: ErrorCode::io of a file, anything else as it was. No checkpoint is left half written then, and training
/// may go on.
class CheckpointSaver {
 public:
  /// Rank 0 locks the folder for as long as this lives. keep: checkpoints that are left after a save, 0 for all.
  CheckpointSaver(const std::string& folder, Communicator& world, int keep, SaveMode mode,
                  Disk& disk = system_disk());
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Between two steps. `whole`: the undistributed layout, which lives as long as this. Waits for an asynchronous save
  /// that has not ended, and throws what it ended with.
  void save(DistributedOptimizer& optimizer, const OptimizerSetup& setup, const FlatLayout& whole,
            const CheckpointContent& content);

  /// After a step: has an asynchronous save committed that all ranks have written, and older ones removed, which a
  /// thread of rank 0 does; or ends one that was. False if one is still on its way.
  bool advance();

  /// Waits until nothing is on its way.
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
  std::optional<CheckpointRoot> root_;  // locked, on rank 0
  CheckpointImage image_;  // of what this rank owns, while an asynchronous save writes it
  WriteBuffer room_;       // what a synchronous save writes from
  std::unique_ptr<Pending> pending_;
};

}  // namespace zeroproof
