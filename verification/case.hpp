#pragma once
// One case: one candidate in one world, judged against the reference.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/dtype.hpp"
#include "common/step/phase.hpp"
#include "verification/step_place.hpp"

namespace zeroproof::verification {

enum class Status : std::uint8_t { pass, fail, mistrusted, skipped, error, crashed, hung };
inline constexpr int num_statuses = 7;
std::string_view name(Status status);

/// Lock-step: before every phase the candidate's inputs are the reference's. Free: both run on, the first
/// difference is the report.
enum class Mode : std::uint8_t { lockstep, free };

/// Candidates: the host twins phase by phase, the fused host step, the device twins.
enum class Twin : std::uint8_t { host, host_fused, device };
std::string_view name(Twin twin);

struct WorldSpec {
  enum class Kind : std::uint8_t { self, threads, mpi } kind = Kind::self;
  int size = 1;

  std::string id() const;  ///< "self", "threads:4", "mpi:2"
  bool operator==(const WorldSpec&) const = default;
};

/// Errors (ErrorCode::config): an unknown kind, or a size that is not 1 to 4096.
WorldSpec parse_world(const std::string& text);

struct CaseSpec {
  std::string workload = "byte_gpt";
  std::string recipe = "adamw";  ///< a variation of the step (recipes.hpp)
  Twin twin = Twin::host;
  int stage = 0;
  WorldSpec world;
  DType dtype = DType::bf16;
  Mode mode = Mode::lockstep;
  std::int64_t bucket_numel = 262144;
  int omp_threads = 0;
  StepPlace place;

  /// Layer by layer: always in stage 3, and wherever communication overlaps with layers.
  bool layered() const { return stage == 3 || place.overlap; }

  /// "byte_gpt/adamw/host/stage2/threads:4/bf16/lockstep/bucket:262144/omp:1", then what of its place is not the default
  std::string id() const;
};

/// The case an id names, or nothing if the text is not a complete id. Errors (ErrorCode::config): values no
/// case has.
std::optional<CaseSpec> parse_case_id(const std::string& id);

/// What stands between the slashes of a case id: at least one part, any of them may be empty.
std::vector<std::string> id_parts(const std::string& id);

/// Shell-style match with * and ?; a pattern without them also matches every id that contains it.
bool matches(const std::string& pattern, const std::string& id);

/// What was compared in one phase of one buffer, over all steps and ranks.
struct PhaseTally {
  Phase phase = Phase::prepare;
  BufferId buffer = BufferId::step_scalars;
  std::string against =
      "reference";  ///< "reference" (the twin), or "undistributed" (stages against the dense truth)
  std::int64_t compared = 0;
  std::int64_t differing = 0;
};

/// bitwise, ordered or integer: a property of the operation (CONTRACT, last section).
std::string_view exactness_class(BufferId buffer);

/// The first place where something is not as the contract says.
struct Divergence {
  std::int64_t step = 0;                        ///< counted from 1; 0 is the state after it was loaded
  std::optional<Phase> phase = Phase::prepare;  ///< none in L-BFGS, whose steps have no phases
  int rank = 0;
  std::string buffer;
  std::string what;  ///< "differs from the reference", "was written in a phase that may not write it", ...
  std::int64_t shard_index = -1;  ///< first element, in the rank's buffer; -1 where no element is meant
  std::int64_t global_index = -1;
  std::int64_t last_global_index = -1;
  std::string parameter;
  std::string coordinates;
  std::string reference_value;  ///< bits and value
  std::string candidate_value;
  std::int64_t differing = 0;  ///< elements, in this buffer on this rank in this step
  std::int64_t compared = 0;
};

struct StepTiming {
  double reference_seconds = 0;  ///< phases unscale to cast, all steps that were applied
  double candidate_seconds = 0;
  std::int64_t reference_bytes = 0;  ///< per step: each buffer a pass reads or writes, counted once
  std::int64_t candidate_bytes = 0;
  std::int64_t steps = 0;
};

struct CaseResult {
  CaseSpec spec;
  Status status = Status::skipped;
  std::string reason;
  std::string replay;
  std::optional<Digest> reference_hash;
  std::optional<Digest> candidate_hash;
  std::vector<PhaseTally> tallies;
  std::optional<Divergence> divergence;
  StepTiming timing;
  std::int64_t steps = 0;
  std::int64_t skipped_steps = 0;
  std::int64_t clipped_steps = 0;
  std::int64_t growths = 0;
  std::int64_t moved_elements = 0;  ///< master elements that an applied step changed, over all steps
};

}  // namespace zeroproof::verification
