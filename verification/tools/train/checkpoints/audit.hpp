#pragma once
// Recomputes steps of a run and compares them with its log, and the checkpoints of these steps with
// the recomputed states: bits do not depend on the layout, so any step can be recomputed on any
// ranks.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "verification/compare/judge/rank_comparison.hpp"
#include "verification/tools/train/run_log.hpp"

namespace zeroproof::verification {

struct AuditSettings {
  std::string folder;                ///< of checkpoints and the log
  std::string log;                   ///< file
  std::int64_t first = 0, last = 0;  ///< steps; 0 for all that the log has
  WorldSpec world;                   ///< ranks of the recomputation
  bool by_reference = false;
  std::function<void(double fraction, const std::string& what)> progress = {};
};

/// The first difference between a run and its recomputation.
struct AuditFinding {
  std::int64_t step = 0;
  bool loaded = false;  ///< it is the state of a checkpoint, after that step
  std::string buffer;   ///< "master", or a scalar: "grad_norm"
  std::int64_t bucket = -1;
  FlatRange elements{0, 0};  ///< of the bucket, in the numbering of R13
  std::string tensors;       ///< names of the first and the last tensor there
  std::string ranks;         ///< of the run, that owned them: "rank 2"
  std::string logged, made;  ///< made: of a checkpoint, the saved value
};

struct AuditResult {
  std::int64_t from = 0;  ///< step of the checkpoint; 0: the start of the run
  std::int64_t first = 0, last = 0;
  std::int64_t steps = 0;        ///< that were recomputed and compared with the log
  std::int64_t checkpoints = 0;  ///< whose state was compared
  std::int64_t buckets = 0;      ///< that were compared; 0 if the log has no steps
  std::optional<AuditFinding> finding;
};

/// Errors: io, if there is no folder or no log; damaged, if it is not a log, or its chain is broken,
/// it ends before the newest checkpoint, a checkpoint has the hash of another line, a line lacks
/// digests of a buffer that its step has, or a checkpoint has changed since it was written; config,
/// if the log does not have these steps, or its text is missing.
AuditResult audit(const AuditSettings& settings);

std::string to_text(const AuditResult& result, const AuditSettings& settings);

}  // namespace zeroproof::verification
