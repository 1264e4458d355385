#include "verification/tools/train/rank_processes.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>

#include "common/base/printable.hpp"
#include "verification/training/job_watch.hpp"
#include "verification/training/ranks/job_folder.hpp"
#include "verification/training/ranks/mpi_launch.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace zeroproof::verification {
namespace {

constexpr int no_rank = 3, hung = 5, lost = 6;  // exit codes, as the command line documents them

std::vector<std::optional<int>> ends_of(const JobNotes& notes) {
  std::vector<std::optional<int>> ends;
  for (int rank = 0; rank < notes.num_ranks(); ++rank) ends.push_back(notes.ended(rank));
  return ends;
}

bool all_ended(const JobNotes& notes) {
  const std::vector<std::optional<int>> ends = ends_of(notes);
  return std::all_of(ends.begin(), ends.end(), [](const auto& code) { return code.has_value(); });
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

int exit_code_of_job(Span<const std::optional<int>> ended) {
  const auto is_one = [&](const auto& condition) {
    return std::find_if(ended.begin(), ended.end(),
                        [&](const auto& code) { return code && condition(*code); });
  };
  const auto cause = is_one([](int code) { return code > 0 && code != hung && code != lost; });
  if (cause != ended.end()) return **cause;
  return is_one([](int code) { return code == hung; }) != ended.end() ? hung : lost;
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
  // A job that was ended after its ranks, or that could not write its notes, succeeded too.
  const bool well =
      code_of(mpirun.status) == 0 ||
      std::all_of(ends.begin(), ends.end(), [](const auto& code) { return code == 0; });
  if (well) return notes.stopped() ? 128 + stop.signal() : 0;
  const bool hangs = !watch.problem().empty();
  if (hangs) {
    std::fprintf(stderr, "zeroproof: %s\n", printable(watch.problem()).c_str());
  } else if (static_cast<int>(notes.not_joined().size()) == job.num_ranks) {
    std::fprintf(stderr,
                 "zeroproof: mpirun ended with exit code %d before a rank started (there is "
                 "no rank to train); "
                 "see its output\n",
                 code_of(mpirun.status));
    return no_rank;
  } else if (!watch.lost_ranks().empty()) {
    std::fprintf(stderr, "zeroproof: %s (the other ranks cannot go on without it); %s\n",
                 printable(watch.lost_ranks()).c_str(), job.remedy.c_str());
  }
  const int code = hangs ? hung : exit_code_of_job(ends);
  if (code == hung || code == lost)
    std::fprintf(stderr, "last collectives of the ranks:\n%s",
                 printable_lines(flights_text(notes.flights())).c_str());
  return code;
}

}  // namespace zeroproof::verification
