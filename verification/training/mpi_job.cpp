#include "verification/training/mpi_job.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>
#include <tuple>

#include "common/base/error.hpp"
#include "common/io/files/replacing_file.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/report/json_types.hpp"
#include "verification/training/job_watch.hpp"
#include "verification/training/ranks/job_folder.hpp"
#include "verification/training/ranks/mpi_environment.hpp"
#include "verification/training/ranks/mpi_launch.hpp"
#include "verification/training/ranks/mpi_world.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace zeroproof::verification {
namespace {

std::string own_path() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  ZP_CHECK(length > 0, ErrorCode::io, "this program cannot find its own file",
           "it starts itself under mpirun", "start it under mpirun yourself");
  path.resize(length);
  return path;
}

/// The error lines of a job's output, without mpirun's frames.
std::string last_words(const std::string& output) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : output + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    const bool frame = line.find_first_not_of("- ") == std::string::npos ||
                       line.find("MPI_ABORT") != std::string::npos ||
                       line.find("You may or may not") == 0 ||
                       line.find("exactly when Open MPI") == 0 || line.find("with errorcode") == 0;
    if (!frame && std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    line.clear();
  }
  std::string text;
  const std::size_t first = lines.size() > 6 ? lines.size() - 6 : 0;
  for (std::size_t i = first; i < lines.size(); ++i) text += (text.empty() ? "" : " | ") + lines[i];
  return text.substr(0, 1200);
}

std::string said(const std::string& words) { return words.empty() ? "" : "; its output: " + words; }

Result not_run(const CaseSpec& spec, Status status, const std::string& reason) {
  Result result = training_result(spec);
  result.status = status;
  result.reason = reason;
  return result;
}

/// For the ranks of a job: "RUN:PATH" of the gradients.
constexpr const char* leaves_variable = "ZP_MPI_LEAVES";
constexpr std::size_t run_digits = 32;

/// The command line of a job's ranks. Their results are returned as notes, independent of the
/// report.
std::vector<std::string> words_of(const VerifyOptions& options, int size,
                                  const std::vector<CaseSpec>& cases, const JobFolder& folder) {
  std::vector<std::string> words = mpirun_words(size, options.hostfile);
  words.insert(words.end(), {own_path(), "verify"});
  for (const CaseSpec& spec : cases) words.push_back(spec.id());
  for (std::size_t i = 0; i < options.replay_flags.size(); i += 2) {
    if (options.replay_flags[i] == "--text") continue;
    words.insert(words.end(), {options.replay_flags[i], options.replay_flags[i + 1]});
  }
  if (options.gradients.empty()) words.insert(words.end(), {"--text", folder.file("text")});
  words.insert(words.end(), {"--report", "json:" + folder.file("report")});
  return words;
}

void write_text(const std::string& path, const workload::Text& text) {
  ReplacingFile file(path);
  file.write(0, std::as_bytes(Span<const std::uint8_t>(text.bytes)));
  file.commit();
}

bool is_judged(const Result& result) { return result.status < Status::skipped; }

/// The result of a case from the notes of its ranks: a verdict, which all ranks agree on; otherwise
/// the result of most ranks, since a rank that was stopped lacks the later events. Null without
/// notes.
const Result* said_of(const std::string& id, const std::vector<Result>& notes) {
  const Result* chosen = nullptr;
  std::ptrdiff_t most = 0;
  for (const Result& note : notes) {
    if (note.id != id) continue;
    if (is_judged(note)) return &note;
    auto votes = std::count_if(notes.begin(), notes.end(), [&](const Result& other) {
      return other.id == id && other.reason == note.reason;
    });
    // A rank that waited until the limit reports the missing rank; others may only have seen that
    // one give up.
    if (note.status == Status::hung) votes += std::ssize(notes);
    if (votes > most) chosen = &note;
    most = std::max(most, votes);
  }
  return chosen;
}

/// Why a case of a job has no result.
struct JobEnd {
  Status status = Status::crashed;
  std::string reason;
};

JobEnd end_of(const JobWatch& watch, const Ended& mpirun, const std::vector<Result>& notes,
              const std::string& output, const std::vector<int>& not_started) {
  if (!watch.problem().empty()) {
    const bool died = !watch.lost_ranks().empty() && !watch.lost_ranks_hang();
    return {died ? Status::crashed : Status::hung, watch.problem() + said(last_words(output))};
  }
  // notes of the survivors are more specific than the end of mpirun
  for (const Result& note : notes) {
    if (!is_judged(note) && note.status != Status::skipped)
      return {note.status, "the MPI job ended before this case was done; its ranks report of " +
                               note.id + ": " + note.reason};
  }
  const int status = mpirun.status;
  const bool hung = WIFEXITED(status) && WEXITSTATUS(status) == 5;
  return {
      hung ? Status::hung : Status::crashed,
      "the MPI job ended without a result (" +
          (mpirun.lingered       ? "mpirun waited for a host it had lost"
           : WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                 : "exit " + std::to_string(WEXITSTATUS(status))) +
          (not_started.empty() ? ")" : "), before the start of " + describe_ranks(not_started)) +
          said(last_words(output))};
}

/// The survivors report only that a rank is missing. A rank that died has recorded no end, whatever
/// the exit code of mpirun: that may be the code of a rank that ended because of it.
void say_signal(Result& result, const Ended& mpirun, const JobNotes& notes) {
  if (result.status != Status::error || mpirun.was_ended) return;
  const int signal = signal_of_a_rank(mpirun);
  bool all_ended = true;
  for (int rank = 0; rank < notes.num_ranks(); ++rank)
    all_ended = all_ended && notes.ended(rank).has_value();
  if (signal == 0 && all_ended) return;
  result.status = Status::crashed;
  if (signal != 0)
    result.reason += " (a process of the MPI job died of signal " + std::to_string(signal) + ")";
}

/// The survivors name the rank they miss; the process that ended first was observed here.
void say_lost(Result& result, const JobWatch& watch) {
  if (result.status < Status::error || watch.lost_ranks().empty()) return;
  // A survivor that saw another rank give up may have reported it before its own limit.
  if (watch.lost_ranks_hang()) {
    result.status = Status::hung;
  } else if (result.status == Status::error) {
    result.status = Status::crashed;
  }
  result.reason = watch.lost_ranks() + "; " + result.reason;
}

std::vector<Result> run_job(const VerifyOptions& options, int size,
                            const std::vector<CaseSpec>& cases, const workload::Text& text,
                            GradStore* leaves, const JobListener& listener) {
  const JobFolder folder;
  if (options.gradients.empty()) write_text(folder.file("text"), text);
  const std::string output = folder.file("output");
  const std::string grad_file = leaves != nullptr ? leaves->seal() : "";
  Variables variables = {{job_folder_variable, folder.path()}};
  if (!grad_file.empty())
    variables.emplace_back(leaves_variable, to_hex(leaves->run()) + ":" + grad_file);
  JobNotes notes(folder.path(), size);
  if (options.plugin && mpi_jobs_run_here(options))
    variables.emplace_back(job_notes_variable, notes.keep());
  std::set<std::string> reported;
  const auto report_fresh = [&] {
    std::vector<Result> fresh;
    for (Result& note : notes.results()) {
      if (is_judged(note) && reported.insert(note.id).second) fresh.push_back(std::move(note));
    }
    if (!fresh.empty()) listener.finished(fresh);
    return fresh;
  };
  std::vector<Result> found;
  JobWatch watch(notes, config_of(options, cases.front().workload).comm_timeout_s,
                 mpi_jobs_run_here(options));
  std::uintmax_t bytes = 0;
  const auto look = [&] {
    listener.waiting();
    if (const std::uintmax_t now = notes.result_bytes(); now != bytes) {
      bytes = now;
      for (Result& result : report_fresh()) found.push_back(std::move(result));
    }
    if (!content_of(folder.file("report")).empty() ||
        content_of(output).find("MPI_ABORT was invoked") != std::string::npos) {
      return JobState::over;
    }
    return watch.look();
  };
  const Ended mpirun =
      run_mpirun(words_of(options, size, cases, folder), output, look, variables, &folder);
  // After a job is given up, later notes of its ranks are ignored: a stopped rank continues while
  // the job is ended.
  const bool given_up = !watch.problem().empty();
  if (!given_up) {
    for (Result& result : report_fresh()) found.push_back(std::move(result));
  }
  std::vector<Result> said = given_up ? std::vector<Result>() : notes.results();
  std::stable_partition(said.begin(), said.end(),
                        [](const Result& note) { return note.status == Status::hung; });
  const JobEnd end = end_of(watch, mpirun, said, content_of(output), notes.not_started());
  std::vector<Result> others;
  for (const CaseSpec& spec : cases) {
    if (reported.count(spec.id()) > 0) continue;
    const Result* const note = said_of(spec.id(), said);
    others.push_back(note != nullptr ? *note : not_run(spec, end.status, end.reason));
    say_signal(others.back(), mpirun, notes);
    say_lost(others.back(), watch);
    // One job, so its ranks had the same last collectives for all unfinished cases.
    const bool first = std::all_of(others.begin(), others.end(),
                                   [](const Result& r) { return r.flights.empty(); });
    if (others.back().status >= Status::error && first) others.back().flights = notes.flights();
  }
  if (!others.empty()) listener.finished(others);
  for (Result& result : others) found.push_back(std::move(result));
  return found;
}

}  // namespace

std::function<std::unique_ptr<World>(const CaseSpec&)> make_mpi_world_factory(
    const VerifyOptions& options) {
  return [&options](const CaseSpec& spec) -> std::unique_ptr<World> {
    ZP_CHECK(spec.world.size == mpi_job_size(), ErrorCode::config,
             "case " + spec.id() + " needs " + std::to_string(spec.world.size) +
                 " ranks but the MPI job has " + std::to_string(mpi_job_size()),
             "every rank is one process",
             "start it with mpirun -n " + std::to_string(spec.world.size));
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

std::unique_ptr<GradFile> leaves_handed_over() {
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
  return std::make_unique<GradFile>(path, run);
}

std::vector<Result> run_mpi_jobs(const VerifyOptions& options, const std::vector<CaseSpec>& cases,
                                 const Texts& texts, GradStore* leaves,
                                 const JobListener& listener) {
  std::vector<Result> all;
  if (!mpi_answers()) {
    for (const CaseSpec& spec : cases)
      all.push_back(not_run(spec, Status::skipped, mpi_obstacle()));
    if (!all.empty()) listener.finished(all);
    return all;
  }
  ZP_CHECK(number_in_environment({"SLURM_STEP_NUM_TASKS"}) <= 1, ErrorCode::config,
           "srun started several independent copies of this program",
           "each would start the MPI cases again", "use srun --mpi=pmix, or start one copy only");
  std::set<std::tuple<int, WorldSpec::Kind, std::string>> jobs;  // one per world and workload
  for (const CaseSpec& spec : cases) jobs.insert({spec.world.size, spec.world.kind, spec.workload});
  for (const auto& [size, kind, workload] : jobs) {
    std::vector<CaseSpec> job;
    for (const CaseSpec& spec : cases) {
      if (spec.world == WorldSpec{kind, size} && spec.workload == workload) job.push_back(spec);
    }
    for (Result& result : run_job(options, size, job, texts.at(workload), leaves, listener))
      all.push_back(std::move(result));
  }
  return all;
}

}  // namespace zeroproof::verification
