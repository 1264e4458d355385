#include "verification/tools/train/rank_processes.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "common/base/printable.hpp"
#include "verification/training/job_watch.hpp"
#include "verification/training/ranks/job_folder.hpp"
#include "verification/training/ranks/mpi_launch.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace zeroproof::verification {
namespace {

// Exit codes, as the command line documents them.
constexpr int no_rank = 3, hung = 5, lost = 6, internal = 9, signal_base = 128;

std::vector<std::optional<int>> ends_of(const JobNotes& notes) {
  std::vector<std::optional<int>> ends;
  for (int rank = 0; rank < notes.num_ranks(); ++rank) ends.push_back(notes.ended(rank));
  return ends;
}

bool all_ended(const JobNotes& notes) {
  const std::vector<std::optional<int>> ends = ends_of(notes);
  return std::all_of(ends.begin(), ends.end(), [](const auto& code) { return code.has_value(); });
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : signal_base + WTERMSIG(status);
}

}  // namespace

int exit_code_of_job(const JobEnd& end) {
  const auto any = [&](const auto& condition) -> std::optional<int> {
    const auto found = std::find_if(end.ranks.begin(), end.ranks.end(),
                                    [&](const auto& code) { return code && condition(*code); });
    return found == end.ranks.end() ? std::nullopt : *found;
  };
  const auto is_signal = [](int code) {
    return code == signal_base + SIGINT || code == signal_base + SIGTERM;
  };
  // A job that was ended after its ranks, or that could not write its notes, succeeded too.
  const bool well =
      end.command == 0 || std::all_of(end.ranks.begin(), end.ranks.end(), [&](const auto& code) {
        return code && (*code == 0 || is_signal(*code));
      });
  const std::optional<int> signalled = any(is_signal);
  if (well && (end.stopped || signalled)) {
    if (end.signal != 0) return signal_base + end.signal;
    return signalled.value_or(signal_base + SIGTERM);  // no rank could note its signal
  }
  if (well) return 0;
  if (end.hangs) return hung;
  if (!end.started) return no_rank;
  const auto cause = any([&](int code) {
    return (code > 0 && code <= internal && code != hung && code != lost) || is_signal(code);
  });
  if (cause) return *cause;
  return any([](int code) { return code == hung; }) ? hung : lost;
}

int run_rank_processes(const RankProcesses& job, const StopRequest& stop) {
  const JobFolder folder;
  const JobNotes notes(folder.path(), job.num_ranks);
  JobWatch watch(notes, job.comm_timeout_s, job.here);
  bool stop_requested = false;
  const auto look = [&] {
    if (stop.signal() != 0 && !stop_requested) notes.ask_to_stop();
    stop_requested = stop.signal() != 0;
    return all_ended(notes) ? JobState::over : watch.look();
  };
  const Ended mpirun =
      run_mpirun(job.words, "", look, {{job_folder_variable, folder.path()}}, &folder);
  const std::vector<std::optional<int>> ends = ends_of(notes);
  JobEnd end{ends, code_of(mpirun.status)};
  end.started = static_cast<int>(notes.not_joined().size()) != job.num_ranks;
  end.hangs = !watch.problem().empty();
  end.stopped = notes.stopped();
  end.signal = stop.signal();
  const int code = exit_code_of_job(end);
  if (code == 0 || code > signal_base) return code;
  if (end.hangs) {
    std::fprintf(stderr, "zeroproof: %s\n", printable(watch.problem()).c_str());
  } else if (!end.started) {
    std::fprintf(stderr,
                 "zeroproof: mpirun ended with exit code %d before a rank started (there is "
                 "no rank to train); "
                 "see its output\n",
                 end.command);
  } else if (!watch.lost_ranks().empty()) {
    std::fprintf(stderr, "zeroproof: %s (the other ranks cannot go on without it); %s\n",
                 printable(watch.lost_ranks()).c_str(), job.remedy.c_str());
  }
  if (code == hung || code == lost)
    std::fprintf(stderr, "last collectives of the ranks:\n%s",
                 printable_lines(flights_text(notes.flights())).c_str());
  return code;
}

}  // namespace zeroproof::verification
