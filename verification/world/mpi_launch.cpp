#include "verification/world/mpi_launch.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "common/base/error.hpp"
#include "verification/io/regular_file.hpp"

extern char** environ;

namespace zeroproof::verification {
namespace {

/// Variables without which Open MPI refuses to run as root or with more ranks than cores; set ones are kept.
constexpr std::pair<const char*, const char*> mpi_environment[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
};

/// The environment of this process with more in it. A copy: other threads may read the original.
class Environment {
 public:
  Environment() {
    for (char** variable = environ; *variable != nullptr; ++variable) entries_.emplace_back(*variable);
  }

  bool has(const std::string& name) const { return find(name) != entries_.end(); }

  void set(const std::string& name, const std::string& value) {
    const auto there = find(name);
    if (there != entries_.end()) entries_.erase(there);
    entries_.push_back(name + "=" + value);
  }

  const std::vector<std::string>& entries() const { return entries_; }

 private:
  std::vector<std::string>::const_iterator find(const std::string& name) const {
    return std::find_if(entries_.begin(), entries_.end(),
                        [&](const std::string& entry) { return entry.rfind(name + "=", 0) == 0; });
  }

  std::vector<std::string> entries_;
};

/// Open MPI hands its own variables on to other hosts, but of ours only those in this list; MPICH hands on all.
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

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// How long mpirun may outlive the job: it waits for its helper on a host that nobody can reach any more, for a
/// quarter of an hour or longer.
constexpr std::chrono::seconds linger_limit{15};
constexpr std::chrono::seconds term_limit{5};  // from SIGTERM to SIGKILL

/// A started mpirun.
struct Launched : Ended {
  pid_t pid = 0;

  bool ended(bool wait) {
    while (true) {
      const pid_t result = ::waitpid(pid, &status, wait ? 0 : WNOHANG);
      if (result != -1 || errno != EINTR) return result != 0;
    }
  }
  bool ends_within(std::chrono::seconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (std::chrono::steady_clock::now() < deadline) {
      if (ended(false)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
};

/// In the child, between fork and exec: nothing here may allocate or lock, other threads of the parent may hold
/// anything.
[[noreturn]] void become(char* const* arguments, char** environment, const char* output, pid_t parent,
                         int error_pipe) {
  environ = environment;
  // SIGTERM makes mpirun end its ranks, on other hosts too. Whoever kills this program leaves nothing behind.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(output, O_WRONLY | O_TRUNC);
  const bool redirected = ::dup2(in, 0) == 0 && ::dup2(out, 1) == 1 && ::dup2(out, 2) == 2;
  // The signal is not sent for a parent that died before it was asked for.
  if (redirected && ::getppid() == parent) ::execvp(arguments[0], arguments);
  const int error = errno;
  static_cast<void>(!::write(error_pipe, &error, sizeof(error)));
  ::_exit(127);
}

/// Starts a command with its output in a file; it ends when this program does. Returns 0 or what went wrong.
int start(const std::vector<std::string>& words, const Environment& environment, const std::string& output,
          pid_t& pid) {
  const std::vector<char*> arguments = pointers_to(words);
  std::vector<char*> variables = pointers_to(environment.entries());
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC) != 0) return errno;
  const pid_t parent = ::getpid();
  pid = ::fork();
  if (pid == 0) become(arguments.data(), variables.data(), output.c_str(), parent, error_pipe[1]);
  int error = pid < 0 ? errno : 0;
  ::close(error_pipe[1]);
  if (pid > 0 && ::read(error_pipe[0], &error, sizeof(error)) > 0) ::waitpid(pid, nullptr, 0);
  ::close(error_pipe[0]);
  return error;
}

Launched launch(const std::vector<std::string>& words, const std::string& output,
                const Variables& variables) {
  Environment environment;
  for (const auto& [variable, value] : mpi_environment) {
    if (!environment.has(variable)) environment.set(variable, value);
  }
  environment.set(mpi_child_mark, "1");
  for (const auto& [variable, value] : variables) environment.set(variable, value);
  forward_ours(environment);
  Launched launched;
  const int error = start(words, environment, output, launched.pid);
  ZP_CHECK(error == 0, ErrorCode::unavailable, words[0] + " cannot be started: " + std::strerror(error),
           "MPI cases run under it",
           "install openmpi-bin, or leave MPI worlds out with --world self,threads:4");
  return launched;
}

/// Waits for mpirun; but once over() says that the job has ended, not for long.
void wait_for(Launched& launched, const std::function<bool()>& over) {
  while (!launched.ends_within(std::chrono::seconds(1))) {
    if (!over()) continue;
    if (launched.ends_within(linger_limit)) return;
    launched.lingered = true;
    ::kill(launched.pid, SIGTERM);
    if (launched.ends_within(term_limit)) return;
    ::kill(launched.pid, SIGKILL);
    launched.ended(true);
    return;
  }
}

}  // namespace

std::vector<std::string> mpirun_words(const std::string& hostfile) {
  std::vector<std::string> words = {ZP_MPIEXEC};
  const char* from_environment = std::getenv("ZP_HOSTFILE");
  std::string hosts = hostfile;
  if (hosts.empty() && from_environment != nullptr) hosts = from_environment;
  if (!hosts.empty()) {
    require_regular_file(hosts, "host file");
    ZP_CHECK(std::ifstream(hosts).good(), ErrorCode::io, "host file " + hosts + " cannot be read",
             "it says where the ranks of an MPI job are started", "check --hostfile or ZP_HOSTFILE");
    words.insert(words.end(), {"-hostfile", hosts});
  }
  const char* more = std::getenv("ZP_MPIRUN_ARGS");
  std::istringstream list(more != nullptr ? more : "");
  for (std::string word; list >> word;) words.push_back(word);
  return words;
}

Ended run_mpirun(const std::vector<std::string>& words, const std::string& output,
                 const std::function<bool()>& over, const Variables& variables) {
  Launched launched = launch(words, output, variables);
  wait_for(launched, over);
  return launched;
}

}  // namespace zeroproof::verification
