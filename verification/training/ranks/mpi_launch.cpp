#include "verification/training/ranks/mpi_launch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "common/base/error.hpp"
#include "common/io/files/regular_file.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/training/ranks/job_guard.hpp"
#if defined(ZP_MPI_LOADED)
#include "common/comm/mpi/loaded/mpi_launcher.hpp"
#endif

extern char** environ;

namespace zeroproof::verification {
namespace {

/// Variables without which Open MPI refuses to run as root or with more ranks than cores; existing
/// values are kept.
constexpr std::pair<const char*, const char*> mpi_environment[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},  // the same in Open MPI 5
    // This program's communicators yield the processor between polls. Open MPI's setting yields at
    // every test of a message: a hundred times slower on a machine with eight other programs.
    {"OMPI_MCA_mpi_yield_when_idle", "0"},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
};

#if defined(ZP_MPI_LOADED)
bool is_hydra() { return mpi_launcher().kind == MpiLauncher::Kind::hydra; }
#elif defined(ZP_MPI_HYDRA)
constexpr bool is_hydra() { return true; }
#else
constexpr bool is_hydra() { return false; }
#endif

/// Hydra kills all ranks as soon as one has failed, and their output is lost. With this option it
/// sends them SIGUSR1, which MpiSession takes as a notice; but if a rank died of a signal the
/// others are killed all the same. So each rank runs in a shell, which turns a signal into an exit
/// code of 128 and more.
constexpr const char* let_ranks_speak = "-disable-auto-cleanup";
constexpr std::array<const char*, 4> rank_guard = {"sh", "-c", "trap '' USR1 && \"$@\" || exit $?",
                                                   "sh"};

/// A copy of the environment of this process with additions; other threads may read the original.
class Environment {
 public:
  Environment() {
    for (char** variable = environ; *variable != nullptr; ++variable)
      entries_.emplace_back(*variable);
  }

  bool has(const std::string& name) const { return find(name) != entries_.end(); }

  void set(const std::string& name, const std::string& value) {
    const auto there = find(name);
    if (there != entries_.end()) entries_.erase(there);
    entries_.push_back(name + "=" + value);
  }

  void set_if_missing(const std::string& name, const std::string& value) {
    if (!has(name)) set(name, value);
  }

  /// mpirun ends at once where it finds no ssh, even if all ranks are on this machine.
  void add_default_path() {
    const auto there = find("PATH");
    const std::string before = there == entries_.end() ? "" : there->substr(5) + ":";
    set("PATH", before + default_path());
  }

  const std::vector<std::string>& entries() const { return entries_; }

 private:
  static std::string default_path() {
    std::string path(::confstr(_CS_PATH, nullptr, 0), '\0');
    ::confstr(_CS_PATH, path.data(), path.size());
    return path.c_str();
  }

  std::vector<std::string>::const_iterator find(const std::string& name) const {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const std::string& entry) { return entry.rfind(name + "=", 0) == 0; });
  }

  std::vector<std::string> entries_;
};

/// Open MPI forwards its own variables to other hosts, and only those of ours in this list; MPICH
/// forwards all.
void forward_ours(Environment& environment) {
  constexpr const char* list_variable = "OMPI_MCA_mca_base_env_list";
  if (environment.has(list_variable)) return;
  std::string list;
  for (const std::string& entry : environment.entries()) {
    const auto begins = [&](const char* prefix) { return entry.rfind(prefix, 0) == 0; };
    if (!begins("ZP_") && !begins("OMP_") && !begins("NCCL_")) continue;
    list += (list.empty() ? "" : ";") + entry.substr(0, entry.find('='));
  }
  environment.set(list_variable, list);
}

/// Time for mpirun to end after the job: it can wait for its helper on an unreachable host for a
/// quarter of an hour or longer.
constexpr std::chrono::seconds linger_limit{15};

/// Sets Open MPI's session folder, whose path must be short because of sockets, and its shared
/// memory.
void keep_together(Environment& environment, const JobFolder& folder) {
  constexpr std::size_t longest = 40;
  if (folder.path().size() <= longest)
    environment.set_if_missing("OMPI_MCA_orte_tmpdir_base", folder.path());
  if (folder.shared_memory().empty()) return;
  environment.set_if_missing("OMPI_MCA_btl_vader_backing_directory", folder.shared_memory());
  environment.set_if_missing("OMPI_MCA_osc_sm_backing_directory", folder.shared_memory());
}

/// True if mpirun will start ranks on this machine only, as far as known.
bool stays_here(const std::vector<std::string>& words) {
  const auto is_set = [](const char* variable) { return std::getenv(variable) != nullptr; };
  return std::find(words.begin(), words.end(), "-hostfile") == words.end() &&
         !is_set("ZP_MPIRUN_ARGS") && !is_set("SLURM_JOB_ID") && !is_set("PBS_NODEFILE") &&
         !is_set("LSB_HOSTS");
}

/// shown: the output of the command goes to the user, who needs no explanations of mpirun besides
/// the messages of the ranks and of this program.
Environment environment_of(const std::vector<std::string>& words, const Variables& variables,
                           const JobFolder* folder, bool shown) {
  Environment environment;
  if (shown) environment.set_if_missing("OMPI_MCA_orte_execute_quiet", "1");
  for (const auto& [variable, value] : mpi_environment) environment.set_if_missing(variable, value);
  environment.set(mpi_child_mark, "1");
  environment.add_default_path();
  for (const auto& [variable, value] : variables) environment.set(variable, value);
  if (folder != nullptr && stays_here(words)) keep_together(environment, *folder);
  forward_ours(environment);
  return environment;
}

}  // namespace

std::vector<std::string> mpirun_words(int num_ranks, const std::string& hostfile) {
  std::vector<std::string> words = {mpi_launcher_path()};
  if (is_hydra()) words.push_back(let_ranks_speak);
  const char* from_environment = std::getenv("ZP_HOSTFILE");
  std::string hosts = hostfile;
  if (hosts.empty() && from_environment != nullptr) hosts = from_environment;
  if (!hosts.empty()) {
    require_regular_file(hosts, "host file");
    ZP_CHECK(std::ifstream(hosts).good(), ErrorCode::io, "host file " + hosts + " cannot be read",
             "it lists the hosts of an MPI job", "check --hostfile or ZP_HOSTFILE");
    words.insert(words.end(), {"-hostfile", hosts});
  }
  const char* more = std::getenv("ZP_MPIRUN_ARGS");
  std::istringstream list(more != nullptr ? more : "");
  for (std::string word; list >> word;) words.push_back(word);
  words.insert(words.end(), {"-n", std::to_string(num_ranks)});
  if (is_hydra()) words.insert(words.end(), rank_guard.begin(), rank_guard.end());
  return words;
}

int signal_of_a_rank(const Ended& mpirun) {
  if (is_hydra()) return 0;
  const int code =
      WIFEXITED(mpirun.status) ? WEXITSTATUS(mpirun.status) : 128 + WTERMSIG(mpirun.status);
  return std::max(code - 128, 0);
}

Ended run_mpirun(const std::vector<std::string>& words, const std::string& output,
                 const Watch& watch, const Variables& variables, const JobFolder* folder) {
  GuardedCommand command{
      words, environment_of(words, variables, folder, output.empty()).entries(), output, {}, {}};
  if (folder != nullptr) {
    command.folders = folder->folders();
    command.locks = folder->locks();
  }
  JobGuard guard(command);
  Ended ended;
  std::optional<std::chrono::steady_clock::time_point> over_at;
  while (!guard.ended_within(std::chrono::milliseconds(200))) {
    const JobState state = ended.was_ended ? JobState::runs : watch();
    const auto now = std::chrono::steady_clock::now();
    if (state == JobState::over && !over_at) over_at = now;
    ended.lingered = over_at && now > *over_at + linger_limit;
    if (ended.was_ended || (state != JobState::lost && !ended.lingered)) continue;
    ended.was_ended = true;
    guard.end();
  }
  ended.status = guard.status();
  return ended;
}

}  // namespace zeroproof::verification
