#pragma once
// Ids of single collectives: "comm/all_gather/threads:3/unequal/scattered" is the collective, the
// ranks, the lengths of the parts, and where the parts are.

#include <string>
#include <vector>

#include "verification/cases/case.hpp"

namespace zeroproof::verification {

/// Those of the interface Communicator. split: a gather in each of two groups. reduce_scatter adds
/// floats whose sums are exact in every order.
enum class CommOp : std::uint8_t {
  all_to_all,
  all_gather,
  all_gather_in_place,
  broadcast,
  all_reduce_sum,
  all_reduce_max,
  all_reduce_or,
  reduce_scatter,
  split,
  shared_window
};

/// empty: some ranks have nothing for some others, and in some rounds no rank has anything.
enum class CommParts : std::uint8_t { equal, unequal, empty };

/// adjacent: one after the other; scattered: in reverse order, with gaps.
enum class CommPlaces : std::uint8_t { adjacent, scattered };

/// How data moves. host: by the communicators of the world.
enum class CommTransport : std::uint8_t { host, copies, nccl };

struct CommCaseSpec {
  CommOp op = CommOp::all_gather;
  CommTransport transport = CommTransport::host;
  WorldSpec world;  ///< with copies and nccl the threads that use devices
  CommParts parts = CommParts::equal;
  CommPlaces places = CommPlaces::adjacent;

  std::string id() const;
  std::string ranks() const;  ///< "threads:1+2", "copies:3"
};

std::string_view name(CommOp op);

/// The cases a pattern selects among the usual ones: every collective over each kind of ranks that
/// runs here, inside an MPI job over its ranks. A complete id selects its case anywhere. Errors
/// (ErrorCode::config): a part that does not exist.
std::vector<CommCaseSpec> comm_cases(const std::string& pattern);

/// Why a case cannot run on this machine, or "".
std::string obstacle(const CommCaseSpec& spec);

}  // namespace zeroproof::verification
