#pragma once
// What a rank of a job leaves in the job's folder while it lives, for the process that started the job.

#include <optional>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "common/comm/flight_recorder.hpp"
#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// Set in the environment of the jobs this program starts: the folder.
inline constexpr const char* job_folder_variable = "ZP_JOB_FOLDER";

/// Of a rank whose folder is full.
inline constexpr int unknown_exit_code = -1;

/// Of this process, if it is such a rank; without a folder nothing is recorded.
class RankNotes {
 public:
  static void started();                       ///< before MPI begins, which waits for all ranks
  static void joined();                        ///< all ranks are there
  static void place(const std::string& what);  ///< what this rank is at
  static void finished(Span<const Result> results);
  static void stopped();        ///< it did what asked_to_stop() says
  static void ended(int code);  ///< it ends by itself, with this exit code
  /// True once the process that started the job wants it to end where it can be resumed.
  static bool asked_to_stop();
};

/// What the ranks of a job have recorded so far.
class JobNotes {
 public:
  JobNotes(std::string folder, int num_ranks) : folder_(std::move(folder)), num_ranks_(num_ranks) {}

  int num_ranks() const { return num_ranks_; }
  /// Ranks that have not yet begun to run, and ranks that have not come through the start of MPI.
  std::vector<int> not_started() const;
  std::vector<int> not_joined() const;
  /// Has the ranks end where they can be resumed.
  void ask_to_stop() const;
  bool stopped() const;
  /// The exit code of a rank that ended by itself, unknown_exit_code if it could not write it down.
  std::optional<int> ended(int rank) const;
  /// Results of all ranks, rank 0's first; lines that are incomplete are left out.
  std::vector<Result> results() const;
  /// Bytes of all results, to be asked often.
  std::uintmax_t result_bytes() const;
  std::optional<Flight> flight(int rank) const;
  /// When something last happened on any rank, in ns of the recorders' clock; 0 if nothing is known.
  std::int64_t moved_ns() const;
  /// The last collectives of every rank.
  std::vector<RankFlight> flights() const;

 private:
  std::string file(const char* what, int rank) const;
  std::vector<int> lacking(const char* what) const;

  std::string folder_;
  int num_ranks_;
};

}  // namespace zeroproof::verification
