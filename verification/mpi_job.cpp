#include "verification/mpi_job.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "common/base/error.hpp"
#include "verification/capabilities.hpp"
#include "verification/json_types.hpp"
#include "verification/mpi_world.hpp"

extern char** environ;

namespace zeroproof::verification {
namespace {

int from_environment(std::initializer_list<const char*> names) {
  for (const char* variable : names) {
    const char* text = std::getenv(variable);
    if (text != nullptr && *text != '\0') return std::atoi(text);
  }
  return -1;
}

/// Variables without which Open MPI refuses to run as root or with more ranks than cores; set ones are kept.
constexpr std::pair<const char*, const char*> mpi_environment[] = {
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
};

/// Set for the jobs this program starts.
constexpr const char* child_mark = "ZP_MPI_CHILD";

/// A file in the temporary folder that disappears with this object.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/zeroproof-XXXXXX";
    const int handle = ::mkstemp(path_.data());
    ZP_CHECK(handle >= 0, ErrorCode::io, "no temporary file can be made as " + path_,
             "results of MPI jobs come back through one", "set TMPDIR to a folder that can be written");
    ::close(handle);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::vector<std::uint8_t>& bytes) const {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.close();
    ZP_CHECK(file.good(), ErrorCode::io, "temporary file " + path_ + " could not be written",
             "the MPI job reads its text there", "free space in TMPDIR");
  }
  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string path_;
};

std::string own_path() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  ZP_CHECK(length > 0, ErrorCode::io, "this program cannot find its own file",
           "it starts itself under mpirun", "start it under mpirun yourself");
  path.resize(static_cast<std::size_t>(length));
  return path;
}

/// Runs a command with its output in a file; returns the wait status.
int run_command(const std::vector<std::string>& words, const std::string& output) {
  for (const auto& [variable, value] : mpi_environment) ::setenv(variable, value, 0);
  ::setenv(child_mark, "1", 1);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ZP_CHECK(error == 0, ErrorCode::unavailable, words[0] + " cannot be started: " + std::strerror(error),
           "MPI cases run under it",
           "install openmpi-bin, or leave MPI worlds out with --world self,threads:4");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// The lines of a job's output that say what went wrong, without mpirun's frames.
std::string last_words(const std::string& output) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : output + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    const bool frame = line.find_first_not_of("- ") == std::string::npos ||
                       line.find("MPI_ABORT") != std::string::npos || line.find("You may or may not") == 0 ||
                       line.find("exactly when Open MPI") == 0 || line.find("with errorcode") == 0;
    if (!frame && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    line.clear();
  }
  std::string text;
  const std::size_t first = lines.size() > 6 ? lines.size() - 6 : 0;
  for (std::size_t i = first; i < lines.size(); ++i) text += (text.empty() ? "" : " | ") + lines[i];
  return text.substr(0, 1200);
}

CaseResult failed(const VerifyOptions& options, const CaseSpec& spec, Status status,
                  const std::string& reason) {
  CaseResult result;
  result.spec = spec;
  result.status = status;
  result.reason = reason;
  result.replay = replay_line(options, spec);
  return result;
}

std::vector<CaseResult> run_job(const VerifyOptions& options, int size, const std::vector<CaseSpec>& cases,
                                const workload::Text& text) {
  const TemporaryFile text_file;
  text_file.write(text.bytes);
  const TemporaryFile report;
  const TemporaryFile output;
  std::vector<std::string> words = {ZP_MPIEXEC, "-n", std::to_string(size), own_path(), "verify"};
  for (const CaseSpec& spec : cases) words.push_back(spec.id());
  for (std::size_t i = 0; i < options.replay_flags.size(); i += 2) {
    if (options.replay_flags[i] == "--text") continue;
    words.insert(words.end(), {options.replay_flags[i], options.replay_flags[i + 1]});
  }
  if (options.gradients.empty()) words.insert(words.end(), {"--text", text_file.path()});
  words.insert(words.end(), {"--report", "json:" + report.path()});
  const int status = run_command(words, output.path());
  const std::string json = report.content();
  std::vector<CaseResult> results;
  if (!json.empty()) results = cases_from_json(json);
  // mpirun ends with 128 + signal when a process died of one; the ranks that were left saw only that it was
  // missing.
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  for (CaseResult& result : results) {
    if (result.status != Status::error || code <= 128) continue;
    result.status = Status::crashed;
    result.reason += " (a process of the MPI job died of signal " + std::to_string(code - 128) + ")";
  }
  for (const CaseSpec& spec : cases) {
    const bool there = std::any_of(results.begin(), results.end(),
                                   [&](const CaseResult& result) { return result.spec.id() == spec.id(); });
    if (there) continue;
    const bool hung = WIFEXITED(status) && WEXITSTATUS(status) == 5;
    results.push_back(failed(options, spec, hung ? Status::hung : Status::crashed,
                             "the MPI job ended without a result (" +
                                 (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                                      : "exit " + std::to_string(WEXITSTATUS(status))) +
                                 "); it said: " + last_words(output.content())));
  }
  return results;
}

}  // namespace

bool inside_mpi_job() { return mpi_job_size() > 0; }

bool started_by_zeroproof() { return std::getenv(child_mark) != nullptr; }

int mpi_job_size() { return std::max(0, from_environment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})); }

int mpi_job_rank() { return std::max(0, from_environment({"OMPI_COMM_WORLD_RANK", "PMI_RANK"})); }

std::function<std::unique_ptr<World>(const CaseSpec&)> make_mpi_world_factory(const VerifyOptions& options) {
  return [&options](const CaseSpec& spec) -> std::unique_ptr<World> {
    ZP_CHECK(spec.world.size == mpi_job_size(), ErrorCode::config,
             "case " + spec.id() + " wants " + std::to_string(spec.world.size) +
                 " ranks but the MPI job has " + std::to_string(mpi_job_size()),
             "every rank is one process", "start it with mpirun -n " + std::to_string(spec.world.size));
    return make_mpi_world(config_of(options, spec.workload).comm_timeout_s);
  };
}

std::vector<CaseResult> run_mpi_jobs(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                                     const Texts& texts) {
  std::vector<CaseResult> results;
  if (!mpi_built()) {
    for (const CaseSpec& spec : cases) {
      results.push_back(
          failed(options, spec, Status::skipped,
                 "this build has no MPI (multi-process checks are off); install libopenmpi-dev and "
                 "openmpi-bin and build again"));
    }
    return results;
  }
  std::set<std::pair<int, std::string>> jobs;  // one per world size and workload
  for (const CaseSpec& spec : cases) jobs.insert({spec.world.size, spec.workload});
  for (const auto& [size, workload] : jobs) {
    std::vector<CaseSpec> job;
    for (const CaseSpec& spec : cases) {
      if (spec.world.size == size && spec.workload == workload) job.push_back(spec);
    }
    for (CaseResult& result : run_job(options, size, job, texts.at(workload)))
      results.push_back(std::move(result));
  }
  return results;
}

}  // namespace zeroproof::verification
