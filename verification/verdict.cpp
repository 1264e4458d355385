#include "verification/verdict.hpp"

namespace zeroproof::verification {
namespace {

std::int64_t differing(const CaseResult& result) {
  std::int64_t sum = 0;
  for (const PhaseTally& tally : result.tallies) sum += tally.differing;
  return sum;
}

std::int64_t compared(const CaseResult& result) {
  std::int64_t sum = 0;
  for (const PhaseTally& tally : result.tallies) sum += tally.compared;
  return sum;
}

std::string reason_to_mistrust(const CaseResult& result, const Experiment& experiment) {
  if (compared(result) == 0) return "nothing was compared";
  std::int64_t updated = 0;  // master elements that went through an applied step, over ranks and steps
  for (const PhaseTally& tally : result.tallies) {
    if (tally.buffer == BufferId::master && tally.against == "reference") updated += tally.compared;
  }
  if (updated == 0) return "no step was applied";
  if (2 * result.moved_elements < updated) {
    return "fewer than half of the master elements moved in an applied step";
  }
  const std::optional<double>& max_norm = experiment.config().optimizer.max_norm;
  if (max_norm && *max_norm > 0 && result.clipped_steps == 0) return "clipping is on but never bound";
  const bool skips = experiment.config().on_nonfinite == OnNonfinite::skip;
  if (skips && experiment.scaler().kind == LossScalerKind::dynamic && result.skipped_steps == 0) {
    return "the dynamic loss scaler never met an overflow";
  }
  return {};
}

}  // namespace

std::string describe(const Divergence& d) {
  std::string text = "step " + std::to_string(d.step);
  if (d.phase) text += ", phase " + std::string(name(*d.phase));
  text += ", rank " + std::to_string(d.rank) + ": " + d.buffer + " " + d.what;
  if (!d.parameter.empty()) text += " at " + d.parameter + d.coordinates;
  return text;
}

void judge(CaseResult& result, const Experiment& experiment, const std::optional<Digest>& truth_hash,
           Status error_status, const std::string& error) {
  if (result.divergence) {
    result.status = Status::fail;
    result.reason = describe(*result.divergence);
    if (!error.empty()) result.reason += " (then: " + error + ")";
    return;
  }
  if (!error.empty()) {
    result.status = error_status;
    result.reason = error;
    result.reference_hash.reset();  // of half a run: nothing to compare it with
    result.candidate_hash.reset();
    return;
  }
  result.status = Status::fail;
  if (result.steps < experiment.config().steps) {
    result.reason = "only " + std::to_string(result.steps) + " of " +
                    std::to_string(experiment.config().steps) + " steps could be compared";
  } else if (differing(result) > 0) {
    result.reason = std::to_string(differing(result)) + " elements differ";
  } else if (result.reference_hash != result.candidate_hash) {
    result.reason = "the trajectory hashes of reference and candidate differ";
  } else if (truth_hash && result.candidate_hash && *truth_hash != *result.candidate_hash) {
    result.reason = "the trajectory is not that of the undistributed optimizer";
  } else {
    result.reason = reason_to_mistrust(result, experiment);
    result.status = result.reason.empty() ? Status::pass : Status::mistrusted;
  }
}

}  // namespace zeroproof::verification
