#include "verification/bench/ranks/launch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/error.hpp"
#include "verification/program/temporary_file.hpp"
#include "verification/world/mpi_launch.hpp"

namespace zeroproof::verification::bench {
namespace {

int run_job(const RankOptions& options, int ranks) {
  const TemporaryFile output("the output of MPI jobs comes back through one");
  std::vector<std::string> words = mpirun_words("");
  words.insert(words.end(),
               {"-n", std::to_string(ranks), std::filesystem::read_symlink("/proc/self/exe"), "--mib",
                std::to_string(options.mib), "--rounds", std::to_string(options.rounds)});
  if (!options.json.empty()) {
    std::string file = options.json;
    if (options.ranks.size() > 1) file.append(".").append(std::to_string(ranks));
    words.insert(words.end(), {"--json", file});
  }
  const Ended ended = run_mpirun(words, output.path(), [] { return false; });
  std::fputs(output.content().c_str(), stdout);
  std::fflush(stdout);
  return WIFEXITED(ended.status) ? WEXITSTATUS(ended.status) : 128 + WTERMSIG(ended.status);
}

}  // namespace

int launch_jobs(const RankOptions& options) {
  ::setenv("OMP_NUM_THREADS", "1", 1);
  // The fastest way Open MPI has between the processes of a machine, where the kernel permits it.
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "cma", 0);
  int worst = 0;
  for (const int ranks : options.ranks) worst = std::max(worst, run_job(options, ranks));
  return worst;
}

}  // namespace zeroproof::verification::bench
