// The step as the trajectory hash has it: undistributed, on rank 0.

#include "verification/compare/judge/rank_buffers.hpp"
#include "verification/compare/judge/rank_comparison.hpp"

namespace zeroproof::verification {

TensorView RankComparison::collected(const TensorView& mine, std::vector<GuardedBuffer>& memory) {
  StateCollector& collector = grad_maker_.collector();
  if (collector.whole_on_root()) return mine;
  return memory.emplace_back(collector.collect(mine)).view();
}

TensorView RankComparison::collected_params(DistributedOptimizer& side,
                                            std::vector<GuardedBuffer>& memory) {
  if (spec_.stage == 3 || !local().placement.empty()) {
    return collected(by_id(side.exposed(Phase::cast)).at(BufferId::param_shard).view, memory);
  }
  return by_id(side.exposed(Phase::gather))
      .at(BufferId::param_full)
      .view;  // parameters read by the model, on rank 0
}

void RankComparison::hash_step(std::int64_t step, const Scales& scales,
                               const GuardedBuffer& reference_grad,
                               const GuardedBuffer& candidate_grad) {
  const auto add = [&](DistributedOptimizer& side, int log2_scale, const GuardedBuffer& grad,
                       TrajectoryHash& hash) {
    const Buffers update = by_id(side.exposed(Phase::update));
    std::vector<GuardedBuffer> memory;
    std::vector<std::vector<float>> scales;
    std::vector<TrajectoryHash::Buffer> views = {
        {grad.view()}, {collected(update.at(BufferId::master).view, memory)}};
    for (const StateSlot slot : all_state_slots) {
      const BufferId id = buffer_of(slot);
      // compare_phase() reports a candidate that hides state; its hash then merely differs.
      if (update.count(id) == 0) continue;
      views.push_back({collected(update.at(id).view, memory)});
      const auto scale = update.find(scales_of(slot));
      if (scale == update.end()) continue;
      scales.push_back(grad_maker_.collector().collect_scales(scale->second));
      views.push_back({{scales.back().data(), DType::fp32, numel(Span<float>(scales.back()))},
                       state_block_numel});
    }
    views.push_back({collected_params(side, memory)});
    if (comms_.harness->rank() != 0) return;
    TrajectoryHash::Scalars s;
    s.step = step;
    const Buffers prepared = by_id(side.exposed(Phase::prepare));
    s.step_scalars = prepared.at(BufferId::step_scalars).view;
    if (update.count(BufferId::tensor_steps) > 0)
      s.tensor_steps = update.at(BufferId::tensor_steps).view;
    s.found_inf =
        read<std::uint32_t>(by_id(side.exposed(Phase::unscale)), BufferId::found_inf) != 0;
    s.skipped = side.skipped();
    s.grad_norm = by_id(side.exposed(Phase::norm)).at(BufferId::grad_norm).view;
    s.clip_coef = by_id(side.exposed(Phase::clip)).at(BufferId::clip_coef).view;
    s.log2_loss_scale = log2_scale;
    TrajectoryScales of_blocks;
    if (has_scales(experiment_.param_dtype())) {
      const Buffers cast = by_id(side.exposed(Phase::cast));
      of_blocks = {&experiment_.blocks(), cast.at(BufferId::param_scale).view, {}};
      if (cast.count(BufferId::amax_history) > 0)
        of_blocks.amax_history = cast.at(BufferId::amax_history).view;
    }
    hash.add_step(s, experiment_.layout(), views, of_blocks);
  };
  add(*reference_, scales.reference, reference_grad, reference_hash_);
  add(*candidate_, scales.candidate, candidate_grad, candidate_hash_);
}

}  // namespace zeroproof::verification
