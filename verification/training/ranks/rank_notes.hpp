#pragma once
// Notes of a rank in the job's folder, for the process that started the job.

#include <optional>
#include <string>
#include <vector>

#include "common/base/span.hpp"
#include "common/comm/flight_recorder.hpp"
#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// Set in the environment of the jobs this program starts: the folder.
inline constexpr const char* job_folder_variable = "ZP_JOB_FOLDER";

/// Set besides for ranks that judge a plug-in: the value of JobNotes::keep().
inline constexpr const char* job_notes_variable = "ZP_JOB_NOTES";

/// For a rank whose folder is full.
inline constexpr int unknown_exit_code = -1;

/// Notes of this process, if it is such a rank; without a folder nothing is recorded.
class RankNotes {
 public:
  static void started();                       ///< before MPI begins, which waits for all ranks
  static void joined();                        ///< all ranks have started
  static void place(const std::string& what);  ///< current position of this rank
  static void finished(Span<const Result> results);
  static void stopped();        ///< it stopped as requested by asked_to_stop()
  static void ended(int code);  ///< it ends with this exit code
  /// True after the process that started the job requested an end at a point where it can be
  /// resumed.
  static bool asked_to_stop();
};

/// The notes of all ranks of a job so far.
class JobNotes {
 public:
  JobNotes(std::string folder, int num_ranks) : folder_(std::move(folder)), num_ranks_(num_ranks) {}
  ~JobNotes();
  JobNotes(const JobNotes&) = delete;
  JobNotes& operator=(const JobNotes&) = delete;

  /// For ranks on this machine: keeps results and flights in memory of this process, which a
  /// plug-in's process cannot open (forbid_others()), unlike files of the folder. Errors: io.
  std::string keep();
  int num_ranks() const { return num_ranks_; }
  /// Ranks that have not yet started, and ranks that have not completed the start of MPI.
  std::vector<int> not_started() const;
  std::vector<int> not_joined() const;
  /// The process of a rank that has started.
  std::optional<std::int64_t> pid(int rank) const;
  /// Requests that the ranks end at a point where they can be resumed.
  void ask_to_stop() const;
  bool stopped() const;
  /// The exit code recorded by a rank, unknown_exit_code if it could not be written.
  std::optional<int> ended(int rank) const;
  /// Results of all ranks, rank 0's first; lines that are incomplete are left out.
  std::vector<Result> results() const;
  /// Bytes of all results; cheap to call often.
  std::uintmax_t result_bytes() const;
  std::optional<Flight> flight(int rank) const;
  /// Time of the last event on any rank, in ns of the recorders' clock; 0 if unknown.
  std::int64_t moved_ns() const;
  /// The last collectives of every rank.
  std::vector<RankFlight> flights() const;

 private:
  std::string file(const char* what, int rank) const;
  std::vector<int> lacking(const char* what) const;

  std::string folder_;
  int num_ranks_;
  std::vector<int> kept_;  // descriptors of keep()
};

}  // namespace zeroproof::verification
