#include "verification/bench/ranks/launch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "common/base/error.hpp"
#include "verification/cli/program/temporary_file.hpp"
#include "verification/training/ranks/mpi_launch.hpp"

namespace zeroproof::verification::bench {
namespace {

/// Large blocks come from the heap and not from a mapping of their own, which the system would have to fill with zeros
/// anew at every call; the heap never shrinks, and grows in large steps.
constexpr std::array<const char*, 3> warm_malloc = {
    "MALLOC_MMAP_MAX_=0", "MALLOC_TRIM_THRESHOLD_=1099511627776", "MALLOC_TOP_PAD_=67108864"};

int run_job(const RankOptions& options, int ranks, const std::string& malloc) {
  const TemporaryFile output("the output of MPI jobs comes back through one");
  std::vector<std::string> words = mpirun_words(ranks, "");
  if (malloc == "warm") {
    words.emplace_back("env");
    words.insert(words.end(), warm_malloc.begin(), warm_malloc.end());
  }
  words.insert(words.end(), {std::filesystem::read_symlink("/proc/self/exe"), "--mib",
                             std::to_string(options.mib), "--rounds", std::to_string(options.rounds)});
  if (!options.json.empty()) words.insert(words.end(), {"--json", options.record_of(ranks, malloc)});
  const Ended ended = run_mpirun(words, output.path(), [] { return JobState::runs; });
  std::fputs(output.content().c_str(), stdout);
  std::fflush(stdout);
  return WIFEXITED(ended.status) ? WEXITSTATUS(ended.status) : 128 + WTERMSIG(ended.status);
}

}  // namespace

std::string malloc_settings() {
  std::string text;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view word = *variable;
    const bool tunable = word.starts_with("GLIBC_TUNABLES=") && word.find("malloc") != std::string_view::npos;
    if (tunable || word.starts_with("MALLOC_")) text.append(text.empty() ? "" : " ").append(word);
  }
  return text;
}

bool malloc_is_warm() {
  const char* mappings = std::getenv("MALLOC_MMAP_MAX_");
  return mappings != nullptr && std::string_view(mappings) == "0";
}

int launch_jobs(const RankOptions& options) {
  ::setenv("OMP_NUM_THREADS", "1", 1);
  // The fastest way Open MPI has between the processes of a machine, where the kernel permits it.
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "cma", 0);
  int worst = 0;
  for (const int ranks : options.ranks) {
    for (const std::string& malloc : options.malloc) worst = std::max(worst, run_job(options, ranks, malloc));
  }
  return worst;
}

}  // namespace zeroproof::verification::bench
