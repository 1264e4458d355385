#pragma once
// The result of a case of any suite.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/digest.hpp"
#include "common/base/span.hpp"
#include "common/comm/flight_recorder.hpp"
#include "common/step/phase.hpp"
#include "verification/cases/broken_message.hpp"
#include "verification/cases/case.hpp"
#include "verification/cases/judged_by.hpp"
#include "verification/cases/skipped_step.hpp"

namespace zeroproof::verification {

/// Comparisons of one buffer in one phase, over all steps and ranks.
struct PhaseTally {
  Phase phase = Phase::prepare;
  BufferId buffer = BufferId::step_scalars;
  std::string against =
      "reference";  ///< "reference" (the implementation), or "undistributed" (stages against the dense truth)
  std::int64_t compared = 0;
  std::int64_t differing = 0;
};

/// The first violation of the contract.
struct Divergence {
  std::int64_t step = 0;  ///< counted from 1; 0 is the state after it was loaded
  std::optional<Phase> phase =
      Phase::prepare;  ///< unused in L-BFGS, whose steps have no phases, and for single calls
  int rank = 0;
  std::string buffer;
  std::string
      what;  ///< "differs from the reference", "was written in a phase that may not write it", ...
  std::int64_t shard_index = -1;  ///< first element, in the rank's buffer; -1 if none
  std::int64_t global_index = -1;
  std::int64_t last_global_index = -1;
  std::string parameter;
  std::string coordinates;
  /// for a buffer that belongs to no tensor: "limb 12, of weight 2^32"; "" where words have no
  /// names
  std::string word;
  std::string reference_value;  ///< bits and value
  std::string candidate_value;
  std::string exact_value;     ///< result of exact arithmetic; "" where no bound gives it
  std::int64_t differing = 0;  ///< elements, in this buffer on this rank in this step
  std::int64_t compared = 0;
  std::string
      call;  ///< for one operation, without step and rank: "numel 1025, offset 1, threads 1"
  std::string
      hint;  ///< common property of all differing elements (compare/hint); "" if there is none
  /// for a foreign update: whether any legal order of operations explains it; "" if not checked
  std::string order;
  /// the message with which the difference came, found when the case is run again
  std::optional<BrokenMessage> message;
  std::vector<std::pair<std::string, std::string>>
      inputs;  ///< of that element: name, bits and value
};

/// One line: "step 3, phase update, rank 1: master differs from the reference at head.weight[0, 1]", or
/// "target[1024] differs from the reference".
std::string describe(const Divergence& divergence);

struct StepTiming {
  double reference_seconds = 0;  ///< phases unscale to cast, all steps that were applied
  double candidate_seconds = 0;
  std::int64_t reference_bytes = 0;  ///< per step: each buffer a pass reads or writes, counted once
  std::int64_t candidate_bytes = 0;
  std::int64_t steps = 0;
};

/// Device calls of one rank in one step (cuda/device_calls.hpp lists the counted ones).
struct StepCalls {
  std::int64_t launches = 0;
  std::int64_t graph_launches = 0;
  std::int64_t copies = 0;
  std::int64_t allocations = 0;
  std::int64_t waits = 0;
};

/// A counted value, and the value predicted before the run.
struct Planned {
  std::int64_t measured = 0;
  std::int64_t predicted = 0;
};

/// Bytes of one rank of a host candidate, with the prediction of verification/tools/plan/predict.
struct RankBytes {
  /// The peak of one class of memory on a rank.
  struct Class {
    std::string name;  ///< "master", "grad_nodes", ...
    Planned bytes;
  };
  /// Bytes sent by a rank in all steps, by group and collective.
  struct Wire {
    std::string group;       ///< "shards", "instances", "tp"
    std::string collective;  ///< "all_gather", ...
    Planned calls, messages, bytes;
  };
  int rank = 0;
  Planned peak;  ///< of the sum over all classes
  std::vector<Class> memory;
  std::vector<Wire> sent;
};

/// Measurements of a training case besides its verdict.
struct TrainingRun {
  std::vector<PhaseTally> tallies;
  std::optional<Digest> reference_hash, candidate_hash;  ///< trajectories; on rank 0
  StepTiming timing;
  std::int64_t steps = 0;
  bool ended = false;  ///< by an overflow, as on_nonfinite = error requires; the last step is it
  std::int64_t skipped_steps = 0;
  std::int64_t clipped_steps = 0;
  std::int64_t growths = 0;
  // Master elements in applied steps, over all steps and ranks; padding does not count, nor does a
  // step in which every clip coefficient is 0 (an infinite norm that was propagated).
  std::int64_t updated_elements = 0;  ///< all of them
  std::int64_t moved_elements = 0;    ///< those that the step changed
  std::int64_t nan_elements = 0;      ///< those that were NaN already
  std::vector<SkippedStep> skips;     ///< report of each skipped step
  /// Modes free and whole: the loss of each step with either side's own parameters, mean over micro-batches.
  std::vector<double> losses, reference_losses;
  /// Mode whole on a device: device calls of a rank in a step, from the third step on; the maximum
  /// over all such steps and ranks, number by number.
  std::optional<StepCalls> device_calls;
  /// By rank; empty on devices, for plug-ins, and before the end of the second step, which
  /// allocates the reused memory.
  std::vector<RankBytes> bytes;
};

/// Results of the candidate on one rank, in the order of their comparisons.
struct RankResults {
  int rank = 0;
  std::int64_t compared = 0;  ///< elements, over all steps
  Digest digest;              ///< of the bytes of these elements
};

/// Report of one rank of a training case.
struct RankReport {
  TrainingRun run;
  std::optional<Divergence> divergence;
  std::optional<RankResults> results;
};

/// Distances of differing values in units in the last place of their format. Diagnostic only: no
/// verdict uses them.
struct UlpHistogram {
  std::array<std::int64_t, 5> counts{};  ///< 0, 1, 2, 3 to 15, 16 and more
  std::int64_t sign_or_nan = 0;          ///< signs differ, or one of the two is NaN
  std::uint64_t largest = 0;
  std::int64_t largest_index = -1;  ///< the first element at that distance; -1 if `largest` is 0

  /// Adds the elements of two views of one float format; integers are ignored. first_index: that of
  /// the views' first element.
  void add(const TensorView& reference, const TensorView& candidate, std::int64_t first_index = 0);
};

/// "0: 12  1: 3  2: 0  3-15: 0  16+: 1  sign or NaN: 0  largest 52429".
std::string to_string(const UlpHistogram& histogram);

/// A saved buffer: "input.grad", "reference.master", "candidate.master".
struct SavedTensor {
  std::string name;
  DType dtype = DType::fp32;
  std::vector<std::byte> bytes;
};

struct Result {
  std::string id;
  std::string suite;      ///< its name: "training", "op", "lbfgs", "resume", "comm", "controls"
  std::string group;      ///< within the suite: workload, operation, "lbfgs/byte_gpt_tiny/armijo"
  std::string side;       ///< what was judged: "host-fused", "host x86-64-v3", "device"
  std::string exactness;  ///< class of the operation; "bitwise" of whole runs
  /// Required results: "contract" (its bits), "dialect:NAME" (the bits of a library), "bound" (the
  /// contract's bound, for operations and sums without promised bits), "any-order" (the bound over
  /// all legal orders), "settings" (the choices of a recorded step of Muon, found in its numbers).
  std::string held_to = "contract";
  Status status = Status::skipped;
  std::string reason;
  std::string replay;  ///< the shell line that runs the case again
  std::int64_t compared = 0;
  std::int64_t differing = 0;
  double seconds = 0;
  std::optional<Divergence> divergence;  ///< the first difference
  std::optional<TrainingRun> training;   ///< training only
  std::int64_t legal_differences =
      0;                   ///< controls: elements that differ although the contract allows it
  double worst_ratio = 0;  ///< class bounded: largest error / allowed error
  std::optional<JudgedBy> judged;  ///< operations that any legal order may compute
  UlpHistogram ulps;               ///< operations
  std::vector<RankResults> ranks;  ///< empty for controls and cases that were not run
  std::vector<RankFlight>
      flights;  ///< the last collectives of every rank, if a rank was lost or late
  std::vector<SavedTensor> tensors;  ///< of the call in which the first difference was found
};

/// A result with the identity of a training case and no outcome.
Result training_result(const CaseSpec& spec);

/// Errors (ErrorCode::internal): the result is of another suite.
CaseSpec training_spec(const Result& result);

/// True if the case did not pass, was run, and is not merely mistrusted.
bool failed(Status status);

/// One line that is the same for the same failure: status, reason, first difference.
std::string failure_line(const Result& result);

}  // namespace zeroproof::verification
