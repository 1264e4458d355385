// A candidate that makes the step in one call: its results are compared afterwards.

#include <cstring>

#include "verification/cases/stopwatch.hpp"
#include "verification/compare/judge/rank_buffers.hpp"
#include "verification/compare/judge/rank_comparison.hpp"

namespace zeroproof::verification {

RankComparison::Sums RankComparison::run_whole(std::int64_t step, GradSource& for_reference,
                                               GradSource& for_candidate,
                                               const reference::DenseOptimizer* truth) {
  std::map<Phase, Buffers> ours;
  std::vector<GuardedBuffer> kept;  // the reference reuses its memory
  Sums sums;
  bool stops = false;
  for (const Phase phase : all_phases) {
    const bool left_out = skipped_on_overflow(phase) && reference_->skipped();
    if (left_out && phase < Phase::update) continue;  // norm and coefficient are NaN then
    if (!left_out) {
      if (phase == Phase::update) remember_master();
      const Stopwatch watch;
      stops = stops_at_overflow(phase, [&] { reference_->run_phase(phase, for_reference); });
      if (stops) break;
      if (phase >= Phase::unscale && phase <= Phase::cast)
        timing_.reference_seconds += watch.seconds();
    }
    // A skipped step must leave the state unchanged, and a candidate without observer may have
    // changed it.
    Buffers& now = ours[phase] = by_id(reference_->exposed(phase));
    if (!left_out) look_at(step, phase, now, truth);
    if (phase == Phase::reduce) sums.reference = collected_sum(*reference_);
    for (auto& [id, buffer] : now) {
      const GuardedBuffer& copy =
          kept.emplace_back(buffer.view.numel, buffer.view.dtype, BufferFill::untouched);
      if (buffer.view.numel > 0) {
        std::memcpy(copy.data(), buffer.view.data,
                    static_cast<std::size_t>(buffer.view.num_bytes()));
      }
      buffer.view = copy.view();
    }
  }
  const bool theirs_stops =
      stops_at_overflow(Phase::unscale, [&] { candidate_->step(for_candidate); });
  check_messages();
  if (end_at_overflow(step, stops, theirs_stops, truth)) return {};
  sums.candidate = collected_sum(*candidate_);
  keep_sums(ours.at(Phase::reduce).at(BufferId::grad_sum));
  for (const auto& [phase, reference] : ours) {
    const Buffers theirs = by_id(candidate_->exposed(phase));
    compare_phase(step, phase, reference, theirs, truth);
    check_padding(step, phase, theirs);
    check_red_zones(step, phase);
    // A foreign step begins with the state of the reference: a difference comes from this step.
    if (spec_.implementation.foreign) overwrite(phase, reference, theirs, {});
  }
  return sums;
}

}  // namespace zeroproof::verification
