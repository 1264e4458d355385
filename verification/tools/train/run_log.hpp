#pragma once
// The log of a training run: a line of JSON for every step, with the digests that a later audit
// compares.
//
//     {"training": {...}, "run": "5f0c...", "from": 50, "bucket_numel": 1024, "hash": "<32 digits>"}  a start: step 51 is next
//     {"step": 51, "applied_steps": 51, "loss": 4.2, "loss_scale_log2": 0, "skipped": false, "grad_norm": 0.7,
//      "seconds": 0.1, "sums": {"grad_sum": ["<16 digits>", ...], "master": [...], ...}, "hash": "<32 digits>"}
//
// The lines are a chain: a line ends with the XXH3-128 of the previous line's hash ("" for the first line) and its own
// bytes before `,"hash"`. A checkpoint has the hash of its step's line in "about", as "log". If a step was computed
// several times, after a restart, its last line counts.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/io/json.hpp"
#include "common/step/phase.hpp"

namespace zeroproof::verification {

/// The results of one step.
struct StepRecord {
  std::int64_t step = 0;
  std::int64_t applied_steps = 0;
  double loss = 0;          ///< mean over the micro-batches, in nats per byte; NaN if it is unknown
  int log2_loss_scale = 0;  ///< of the step's leaves
  bool skipped = false;
  double grad_norm = 0;  ///< of the first clip group; NaN if the step was skipped
  double seconds = 0;
  std::map<std::string, std::vector<std::uint64_t>> sums;  ///< by buffer: ElementSums
  Json counters;  ///< of a state, for an audit: counters_json(); not in the log
};

struct RunStart {
  Json training;  ///< training_identity()
  std::string run;
  std::int64_t from = 0;  ///< steps before this run
  std::int64_t bucket_numel = 0;
};

/// Appends to the file; only the last line can be incomplete, and is removed by the next run.
class RunLog {
 public:
  /// Errors: io, the file cannot be written, or is no file; config, its last line is not that of a
  /// log.
  RunLog(const std::string& file, const RunStart& start);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Errors (ErrorCode::io): the disk is full or broken.
  void add(const StepRecord& record);

  /// Writes all lines to the disk; then a checkpoint may refer to them. Errors: as above.
  void sync();

  /// Hash of the last line.
  const std::string& hash() const { return hash_; }

 private:
  void continue_chain();
  void write(const Json& line);

  std::string file_;
  std::string hash_;
  int handle_ = -1;
};

struct LoggedStep {
  StepRecord record;
  std::size_t start = 0;            ///< index of the start that computed it
  std::vector<std::string> hashes;  ///< of all lines of this step
};

struct ReadLog {
  std::vector<RunStart> starts;
  std::map<std::int64_t, LoggedStep> steps;
};

/// An incomplete last line is left out: the run ended while writing it. Errors: io, the file cannot
/// be read; damaged, naming the line, if it is not such a log or the chain is broken.
ReadLog read_log(const std::string& file);

}  // namespace zeroproof::verification
