#pragma once
// Starts mpirun, and ends it when its job is done or lost.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "verification/training/ranks/job_folder.hpp"

namespace zeroproof::verification {

/// Set in the environment of the jobs this program starts.
inline constexpr const char* mpi_child_mark = "ZP_MPI_CHILD";

/// The beginning of a command line, before the program and its arguments: mpirun, the hosts (a host
/// file; "" for ZP_HOSTFILE or this machine), the words of ZP_MPIRUN_ARGS, and the number of ranks.
/// Errors: io if the host file cannot be read.
std::vector<std::string> mpirun_words(int num_ranks, const std::string& hostfile);

/// Supervisor's view of the job.
enum class JobState {
  runs,
  over,  ///< its results are complete, so mpirun should end
  lost,  ///< it cannot complete and is ended
};
using Watch = std::function<JobState()>;

struct Ended {
  int status = 0;          ///< of waitpid
  bool lingered = false;   ///< it was ended long after the job was over
  bool was_ended = false;  ///< because of that, or because the job was lost
};

/// The signal that ended a rank, if mpirun reports it; else 0. MPICH's does not: it combines the
/// codes of all ranks.
int signal_of_a_rank(const Ended& mpirun);

/// Names and values for the environment of a command.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Runs a command line that begins with mpirun_words(), with additional variables, and standard
/// output and error in a file ("": those of this program), and returns when it has ended. All its
/// processes on this machine end with it, and with this process (job_guard.hpp).
/// watch: called five times a second. After the first time it returns over, mpirun gets 15 s to
/// end, which it does not if it has lost a host.
/// folder: for mpirun's files and shared memory; null: their default places.
/// Errors: unavailable if it cannot be started.
Ended run_mpirun(const std::vector<std::string>& words, const std::string& output,
                 const Watch& watch, const Variables& variables = {},
                 const JobFolder* folder = nullptr);

}  // namespace zeroproof::verification
