#pragma once
// Starting mpirun, and not waiting for it longer than it makes sense.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "verification/training/ranks/job_folder.hpp"

namespace zeroproof::verification {

/// Set in the environment of the jobs this program starts.
inline constexpr const char* mpi_child_mark = "ZP_MPI_CHILD";

/// The first words of a command line, up to the program and its arguments: mpirun, where it starts ranks (a host file;
/// "" for that in ZP_HOSTFILE, or this machine), the words of ZP_MPIRUN_ARGS, and how many. Errors: io if the host file
/// cannot be read.
std::vector<std::string> mpirun_words(int num_ranks, const std::string& hostfile);

/// What whoever started a job thinks of it.
enum class JobState {
  runs,
  over,  ///< its results are there, so that mpirun should end
  lost,  ///< nothing will come of it: it is ended
};
using Watch = std::function<JobState()>;

struct Ended {
  int status = 0;          ///< of waitpid
  bool lingered = false;   ///< it had to be ended, long after the job was over
  bool was_ended = false;  ///< because of that, or because the job was lost
};

/// The signal that a rank died of, if mpirun says so; else 0. MPICH's does not: it mixes the codes of all ranks.
int signal_of_a_rank(const Ended& mpirun);

/// Names and values for the environment of a command.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Runs a command line that begins with mpirun_words(), and variables besides this process's own, with standard output
/// and error in a file ("": where this program's go), and returns when it has ended. All its processes on this machine
/// end with it, and with this process, whatever that dies of (job_guard.hpp).
/// watch: asked five times a second. From the first time that the job is over, mpirun gets 15 s to end by itself, which
/// it does not where it has lost a host.
/// folder: gets what mpirun keeps in files and shared memory; null: that lies where it lies by default.
/// Errors: unavailable if it cannot be started.
Ended run_mpirun(const std::vector<std::string>& words, const std::string& output,
                 const Watch& watch, const Variables& variables = {},
                 const JobFolder* folder = nullptr);

}  // namespace zeroproof::verification
