#pragma once
// A training job whose ranks are processes, run by the process that starts them.

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
  std::string remedy;  ///< advice after the loss of a rank
};

/// Runs the job to its end. `stop` is passed on to rank 0 at any time, which then ends the run
/// after its step. Returns the exit code: 128 and the signal if the job stopped for it; 5 if ranks
/// hung, 6 if one was lost, which is reported on standard error with the last collectives of every
/// rank; 3 if mpirun started none; otherwise the exit code of the ranks.
/// Errors: unavailable, the job cannot be started; io, its folder cannot be made.
int run_rank_processes(const RankProcesses& job, const StopRequest& stop);

/// Exit code of a failed job: `ended` has the exit codes of ranks that ended by themselves. A rank
/// that reports a cause takes precedence over ranks that only miss others (5, 6).
int exit_code_of_job(Span<const std::optional<int>> ended);

}  // namespace zeroproof::verification
