#include "verification/training/mpi_job.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <tuple>

#include "common/base/error.hpp"
#include "verification/program/capabilities.hpp"
#include "verification/program/temporary_file.hpp"
#include "verification/report/json_types.hpp"
#include "verification/world/mpi_environment.hpp"
#include "verification/world/mpi_launch.hpp"
#include "verification/world/mpi_world.hpp"

namespace zeroproof::verification {
namespace {

std::string own_path() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  ZP_CHECK(length > 0, ErrorCode::io, "this program cannot find its own file",
           "it starts itself under mpirun", "start it under mpirun yourself");
  path.resize(static_cast<std::size_t>(length));
  return path;
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

Result not_run(const CaseSpec& spec, Status status, const std::string& reason) {
  Result result = training_result(spec);
  result.status = status;
  result.reason = reason;
  return result;
}

/// For the ranks of a job: "RUN:PATH" of the leaves.
constexpr const char* leaves_variable = "ZP_MPI_LEAVES";
constexpr std::size_t run_digits = 32;

std::vector<Result> run_job(const VerifyOptions& options, int size, const std::vector<CaseSpec>& cases,
                            const workload::Text& text, LeafStore* leaves,
                            const std::function<void()>& waiting) {
  const TemporaryFile text_file("an MPI job reads its text there");
  text_file.write(text.bytes);
  const TemporaryFile report("results of MPI jobs come back through one");
  const TemporaryFile output("the output of MPI jobs comes back through one");
  std::vector<std::string> words = mpirun_words(options.hostfile);
  words.insert(words.end(), {"-n", std::to_string(size), own_path(), "verify"});
  for (const CaseSpec& spec : cases) words.push_back(spec.id());
  for (std::size_t i = 0; i < options.replay_flags.size(); i += 2) {
    if (options.replay_flags[i] == "--text") continue;
    words.insert(words.end(), {options.replay_flags[i], options.replay_flags[i + 1]});
  }
  if (options.gradients.empty()) words.insert(words.end(), {"--text", text_file.path()});
  words.insert(words.end(), {"--report", "json:" + report.path()});
  const std::string leaf_file = leaves != nullptr ? leaves->seal() : "";
  Variables variables;
  if (!leaf_file.empty()) variables.emplace_back(leaves_variable, to_hex(leaves->run()) + ":" + leaf_file);
  const auto over = [&] {
    waiting();  // asked once a second
    return !report.content().empty() || output.content().find("MPI_ABORT was invoked") != std::string::npos;
  };
  const Ended mpirun = run_mpirun(words, output.path(), over, variables);
  const int status = mpirun.status;
  const std::string json = report.content();
  std::vector<Result> results;
  if (!json.empty()) results = results_from_json(json);
  // mpirun ends with 128 + signal when a process died of one; the ranks that were left saw only that it was
  // missing.
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  for (Result& result : results) {
    if (result.status != Status::error || code <= 128 || mpirun.lingered) continue;
    result.status = Status::crashed;
    result.reason += " (a process of the MPI job died of signal " + std::to_string(code - 128) + ")";
  }
  for (const CaseSpec& spec : cases) {
    const bool there = std::any_of(results.begin(), results.end(),
                                   [&](const Result& result) { return result.id == spec.id(); });
    if (there) continue;
    const bool hung = WIFEXITED(status) && WEXITSTATUS(status) == 5;
    results.push_back(not_run(spec, hung ? Status::hung : Status::crashed,
                              "the MPI job ended without a result (" +
                                  (mpirun.lingered       ? "mpirun waited for a host it had lost"
                                   : WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                                         : "exit " + std::to_string(WEXITSTATUS(status))) +
                                  "); it said: " + last_words(output.content())));
  }
  return results;
}

}  // namespace

std::function<std::unique_ptr<World>(const CaseSpec&)> make_mpi_world_factory(const VerifyOptions& options) {
  return [&options](const CaseSpec& spec) -> std::unique_ptr<World> {
    ZP_CHECK(spec.world.size == mpi_job_size(), ErrorCode::config,
             "case " + spec.id() + " wants " + std::to_string(spec.world.size) +
                 " ranks but the MPI job has " + std::to_string(mpi_job_size()),
             "every rank is one process", "start it with mpirun -n " + std::to_string(spec.world.size));
    return make_mpi_world(config_of(options, spec.workload).comm_timeout_s);
  };
}

bool mpi_jobs_run_here(const VerifyOptions& options) {
  const auto set = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && *value != '\0';
  };
  return options.hostfile.empty() && !set("ZP_HOSTFILE") && !set("ZP_MPIRUN_ARGS");
}

std::unique_ptr<LeafFile> leaves_handed_over() {
  const char* variable = std::getenv(leaves_variable);
  if (!started_by_zeroproof() || variable == nullptr) return nullptr;
  const std::string value = variable;
  Digest run;
  const auto word = [&](std::size_t begin) {
    std::uint64_t bits = 0;
    const char* first = value.data() + begin;
    return std::from_chars(first, first + run_digits / 2, bits, 16).ec == std::errc{} ? bits : 0;
  };
  if (value.size() <= run_digits + 1) return nullptr;
  run = {word(0), word(run_digits / 2)};
  const std::string path = value.substr(run_digits + 1);
  if (::access(path.c_str(), R_OK) != 0) return nullptr;
  return std::make_unique<LeafFile>(path, run);
}

std::vector<Result> run_mpi_jobs(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                                 const Texts& texts, LeafStore* leaves,
                                 const std::function<void()>& waiting) {
  std::vector<Result> results;
  if (!mpi_built()) {
    for (const CaseSpec& spec : cases) {
      results.push_back(
          not_run(spec, Status::skipped,
                  "this build has no MPI (multi-process checks are off); install libopenmpi-dev and "
                  "openmpi-bin and build again"));
    }
    return results;
  }
  ZP_CHECK(number_in_environment({"SLURM_STEP_NUM_TASKS"}) <= 1, ErrorCode::config,
           "srun started several copies of this program that know nothing of each other",
           "each would start the MPI cases again", "use srun --mpi=pmix, or start one copy only");
  std::set<std::tuple<int, WorldSpec::Kind, std::string>> jobs;  // one per world and workload
  for (const CaseSpec& spec : cases) jobs.insert({spec.world.size, spec.world.kind, spec.workload});
  for (const auto& [size, kind, workload] : jobs) {
    std::vector<CaseSpec> job;
    for (const CaseSpec& spec : cases) {
      if (spec.world == WorldSpec{kind, size} && spec.workload == workload) job.push_back(spec);
    }
    for (Result& result : run_job(options, size, job, texts.at(workload), leaves, waiting))
      results.push_back(std::move(result));
  }
  return results;
}

}  // namespace zeroproof::verification
