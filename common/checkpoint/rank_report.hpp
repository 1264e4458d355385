#pragma once
// Reports that ranks exchange about a save or a load: written pieces, or an error, so that all of
// them end the same way.

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

  /// Runs work; an exception becomes the error.
  void catch_errors(const std::function<void()>& act);
};

/// By rank: on rank 0 every rank's report, and on all of them if one has an error; otherwise the
/// own report and empty ones. Collective.
std::vector<RankReport> gather_reports(Communicator& world, const RankReport& mine);

/// Throws the error of the first rank with one, naming the rank if there are several. On the other
/// ranks its origin is a peer.
void throw_first_error(const Communicator& world, const std::vector<RankReport>& reports);

/// Runs work on every rank; throws on all of them if it threw on one. Collective.
void together(Communicator& world, const std::function<void()>& act);

}  // namespace zeroproof
