#include "verification/compare/judge/verdict.hpp"

#include <algorithm>

namespace zeroproof::verification {
namespace {

std::string percent(std::int64_t part, std::int64_t whole) {
  return std::to_string(100 * part / whole) + " %";
}

/// "" if enough master elements moved, otherwise how many did not, with a hint. Enough is half of
/// them; a bf16 master rounds updates below 2^-9 of its value away, as it should, and one in eight
/// is enough.
std::string standstill(const TrainingRun& run, MasterFormat master) {
  const std::int64_t updated = run.updated_elements;
  const bool bf16 = master == MasterFormat::bf16;
  if ((bf16 ? 8 : 2) * run.moved_elements >= updated) return {};
  const std::int64_t still = updated - run.moved_elements - run.nan_elements;
  const std::string text = std::string("fewer than ") + (bf16 ? "an eighth" : "half") +
                           " of the master elements moved in an applied step: ";
  if (run.nan_elements > still) {
    return text + percent(run.nan_elements, updated) +
           " were NaN already; use a later run.overflow_step, or run.on_nonfinite = \"skip\"";
  }
  return text + percent(still, updated) +
         " had no gradient or one too small for their learning rate; use more --micro-batches, a "
         "larger optimizer.lr (schedule.rates with a table), or no run.idle_tensors";
}

std::string reason_to_mistrust(const Result& result, const Experiment& experiment) {
  const TrainingRun& run = *result.training;
  if (result.compared == 0) return "nothing was compared";
  if (run.updated_elements == 0) return "no step with a finite gradient norm was applied";
  if (2 * run.skipped_steps > run.steps) {
    return "most steps were skipped: " + std::to_string(run.skipped_steps) + " of " +
           std::to_string(run.steps) +
           "; use more --steps, a smaller rate or initial loss scale, or gradients that are finite";
  }
  if (std::string why = standstill(run, experiment.config().state_formats.master); !why.empty())
    return why;
  const auto limits =
      max_norms_of(experiment.setup().clip_groups, experiment.config().optimizer.max_norm);
  const bool clips =
      std::ranges::any_of(limits, [](const auto& limit) { return limit.value_or(0) > 0; });
  if (clips && run.clipped_steps == 0) return std::string(clipping_never_bound);
  const bool skips = experiment.config().on_nonfinite == OnNonfinite::skip;
  if (skips && experiment.scaler().kind == LossScalerKind::dynamic && run.skipped_steps == 0) {
    return "the dynamic loss scaler never met an overflow";
  }
  return {};
}

}  // namespace

void judge(Result& result, const Experiment& experiment, const std::optional<Digest>& truth_hash,
           Status error_status, const std::string& error) {
  TrainingRun& run = *result.training;
  result.compared = result.differing = 0;
  for (const PhaseTally& tally : run.tallies) {
    result.compared += tally.compared;
    result.differing += tally.differing;
  }
  result.seconds = run.timing.reference_seconds + run.timing.candidate_seconds;
  if (result.divergence) {
    result.status = Status::fail;
    result.reason = describe(*result.divergence);
    if (!error.empty()) result.reason += " (then: " + error + ")";
    return;
  }
  if (!error.empty()) {
    result.status = error_status;
    result.reason = error;
    run.reference_hash.reset();  // of a part of the run: there is no hash to compare with
    run.candidate_hash.reset();
    return;
  }
  result.status = Status::fail;
  if (run.steps < experiment.config().steps && !run.ended) {
    result.reason = "only " + std::to_string(run.steps) + " of " +
                    std::to_string(experiment.config().steps) + " steps could be compared";
  } else if (result.differing > 0) {
    result.reason = std::to_string(result.differing) + " elements differ";
  } else if (run.reference_hash != run.candidate_hash) {
    result.reason = "the trajectory hashes of reference and candidate differ";
  } else if (truth_hash && run.candidate_hash && *truth_hash != *run.candidate_hash) {
    result.reason = "the trajectory is not that of the undistributed optimizer";
  } else {
    result.reason = reason_to_mistrust(result, experiment);
    result.status = result.reason.empty() ? Status::pass : Status::mistrusted;
  }
}

}  // namespace zeroproof::verification
