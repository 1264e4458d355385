#pragma once
// Starting mpirun, and not waiting for it longer than it makes sense.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace zeroproof::verification {

/// Set in the environment of the jobs this program starts.
inline constexpr const char* mpi_child_mark = "ZP_MPI_CHILD";

/// The first words of a command line: mpirun, where it starts ranks (a host file; "" for that in ZP_HOSTFILE, or this
/// machine), and the words of ZP_MPIRUN_ARGS. Errors: io if the host file cannot be read.
std::vector<std::string> mpirun_words(const std::string& hostfile);

struct Ended {
  int status = 0;         ///< of waitpid
  bool lingered = false;  ///< it had to be ended, long after the job was over
};

/// Names and values for the environment of a command.
using Variables = std::vector<std::pair<std::string, std::string>>;

/// Runs a command with its output in a file; it gets SIGTERM when this program dies, however that happens. Open MPI
/// waits for a host that it has lost for a quarter of an hour or longer, so once over() says that the job has ended,
/// mpirun has 15 s to end as well.
/// Errors: unavailable if the command cannot be started.
Ended run_mpirun(const std::vector<std::string>& words, const std::string& output,
                 const std::function<bool()>& over, const Variables& variables = {});

}  // namespace zeroproof::verification
