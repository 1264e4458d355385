#pragma once
// Detects MPI jobs that can no longer end by themselves.

#include <chrono>
#include <string>

#include "verification/training/ranks/mpi_launch.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace zeroproof::verification {

/// A job is lost if its ranks do not all complete the start of MPI within the limit: the others
/// wait there without a time limit of this program, and mpirun may wait forever. It is also lost if
/// nothing happens for longer than ranks wait for each other: a live rank would have reported an
/// error by then.
class JobWatch {
 public:
  /// comm_timeout_s: time limit of communication. here: all ranks are on this machine, so that
  /// their notes are visible at once.
  JobWatch(const JobNotes& notes, double comm_timeout_s, bool here);

  JobState look();

  /// The problem of a lost job; "" for any other.
  const std::string& problem() const { return problem_; }

  /// The ranks whose processes ended without a note, or were stopped, before all others, and where:
  /// "rank 2 ended at step 3 of ..., in all_gather #54". "" if none was observed.
  const std::string& lost_ranks() const { return lost_ranks_; }

  /// True if those ranks were stopped: they count as hung, however the job ended afterwards.
  bool lost_ranks_hang() const { return lost_ranks_hang_; }

 private:
  void check_processes();
  void check_start();
  void check_silence();

  const JobNotes& notes_;
  const double timeout_s_;
  const bool here_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool joined_ = false;
  bool lost_for_good_ = false;
  bool lost_ranks_hang_ = false;
  std::string problem_, lost_ranks_;
};

}  // namespace zeroproof::verification
