#pragma once
// Whether an MPI job is still worth waiting for.

#include <chrono>
#include <string>

#include "verification/training/ranks/mpi_launch.hpp"
#include "verification/training/ranks/rank_notes.hpp"

namespace zeroproof::verification {

/// A job whose ranks do not all come through the start of MPI within the limit is lost: the ones that did wait for the
/// others there, where no time limit of ours reaches, and mpirun may wait for none at all. So is a job in which nothing
/// moves for longer than ranks wait for each other: whoever could say what is wrong would have done so.
class JobWatch {
 public:
  /// comm_timeout_s: how long ranks wait for each other. here: all ranks are on this machine, so that what they note is
  /// seen at once.
  JobWatch(const JobNotes& notes, double comm_timeout_s, bool here);

  JobState look();

  /// What is wrong with a job that is lost; "" for any other.
  const std::string& problem() const { return problem_; }

  /// The ranks whose processes ended without a word of theirs, or were stopped, before all others, and where that was:
  /// "rank 2 ended at step 3 of ..., in all_gather #54". "" if none did as long as somebody looked.
  const std::string& lost_ranks() const { return lost_ranks_; }

  /// True if those ranks were stopped: they hung, however the job ended afterwards.
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
