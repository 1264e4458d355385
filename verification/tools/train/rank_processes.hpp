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
/// after its step. Returns exit_code_of_job(); ranks that hung or were lost are reported on standard
/// error with the last collectives of every rank.
/// Errors: unavailable, the job cannot be started; io, its folder cannot be made.
int run_rank_processes(const RankProcesses& job, const StopRequest& stop);

/// How a job ended.
struct JobEnd {
  Span<const std::optional<int>> ranks;  ///< exit codes of the ranks that ended by themselves
  int command = 0;                       ///< exit code of mpirun
  bool started = true;                   ///< some rank was
  bool hangs = false;                    ///< ranks made no progress within the time limit
  bool stopped = false;                  ///< as requested, after a step, with a checkpoint
  int signal = 0;                        ///< received by the process that started the job
};

/// The exit code of train on ranks that are processes, one of the documented table. Stopped: 128
/// and the signal, whether this process or a rank received it. Failed: 5 if ranks hung, 3 if none
/// started, else the cause that a rank reported, which takes precedence over ranks that only miss
/// others (5, 6); 6 if none reported one.
int exit_code_of_job(const JobEnd& end);

}  // namespace zeroproof::verification
