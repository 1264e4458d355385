#pragma once
// A training job whose ranks are processes, seen from the process that started them.

#include <optional>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "verification/cli/program/stop_request.hpp"

namespace zeroproof::verification {

struct RankProcesses {
  std::vector<std::string> words;  ///< mpirun and what it starts
  int num_ranks = 1;
  double comm_timeout_s = 0;
  bool here = true;    ///< all ranks are processes of this machine
  std::string remedy;  ///< what can be done once a rank is lost
};

/// Runs the job to its end. `stop` is handed on to rank 0, whenever it comes, which then ends the run after its step.
/// Returns the exit code: 128 and the signal if the job stopped for it; 5 if ranks hung, 6 if one was lost, which is
/// said on standard error with the last collectives of every rank; 3 if mpirun started none; else what the ranks ended
/// with.
/// Errors: unavailable, the job cannot be started; io, its folder cannot be made.
int run_rank_processes(const RankProcesses& job, const StopRequest& stop);

/// What a job ended with in which something went wrong: `ended` has the exit codes of ranks that ended by themselves. A
/// rank that tells of a cause counts more than those that only miss others (5, 6).
int exit_code_of_job(Span<const std::optional<int>> ended);

}  // namespace zeroproof::verification
