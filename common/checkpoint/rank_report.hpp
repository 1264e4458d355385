#pragma once
// What ranks tell each other of a save or a load: what they wrote, or what went wrong, so that all of them end the same
// way.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/comm/communicator.hpp"
#include "common/io/checkpoint/checkpoint_manifest.hpp"

namespace zeroproof {

struct RankReport {
  FileRecord file;
  std::vector<CheckpointPiece> pieces;  ///< of that file
  std::string error;                    ///< "" if there was none
  ErrorCode code = ErrorCode::internal;

  /// Runs it; what it throws becomes the error.
  void catch_errors(const std::function<void()>& act);
};

/// By rank: to rank 0 every rank's, and to all of them if one has an error; otherwise one's own, and empty ones.
/// Collective.
std::vector<RankReport> gather_reports(Communicator& world, const RankReport& mine);

/// Throws the error of the first rank that has one, naming the rank if there are several.
void throw_first_error(const std::vector<RankReport>& reports);

/// Runs it on every rank; throws on all of them if it threw on one. Collective.
void together(Communicator& world, const std::function<void()>& act);

}  // namespace zeroproof
