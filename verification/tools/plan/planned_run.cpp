#include "verification/tools/plan/planned_run.hpp"

#include "common/step/scaled_params.hpp"
#include "verification/tools/plan/predict/bucket_classes.hpp"
#include "verification/tools/plan/predict/contract_units.hpp"

namespace zeroproof::verification {

PredictedStep planned_run(const PlanSettings& settings, const PlannedModel& model,
                          const FlatLayout& layout, const std::vector<FlatRange>& units,
                          int stage) {
  PredictedStep run;
  run.stage = stage;
  run.instances = settings.instances;
  run.world_size = settings.grid.data_ranks() / settings.instances;
  run.tp_size = settings.grid.tp;
  run.cp = settings.grid.cp;
  run.order = settings.order;
  run.windows = settings.windows;
  run.param_dtype = settings.param_dtype;
  run.grad_dtype = settings.grad_dtype;
  run.micro_batches = settings.micro_batches;
  run.state_buffers = state_buffer_count(settings.hyper);
  run.trust_ratio = traits_of(settings.hyper.rule).trust_ratio;
  run.has_matrices = traits_of(settings.hyper.rule).matrices;
  set_state_formats(run, settings.hyper, settings.state_formats);
  if (has_scales(settings.param_dtype)) {
    const FlatLayout undistributed(tp_shapes(model, 1));
    StepSettings step;
    step.layout = &undistributed;
    step.param_dtype = settings.param_dtype;
    step.scaling = settings.scaling;
    set_scales(run, step);
  }
  run.norm = settings.hyper.norm;
  run.clip_groups = settings.clip_groups;
  run.numel = layout.numel();
  run.num_tensors = static_cast<std::int64_t>(layout.tensors().size());
  set_contract_buckets(run, layout.padded_numel(), settings.bucket_numel);
  std::vector<FlatRange> replicated;
  std::vector<std::int64_t> ends;
  for (std::size_t t = 0; settings.grid.tp > 1 && t < model.tensors.size(); ++t) {
    const TensorSlot& slot = layout.tensors()[t];
    if (model.tensors[t].tp_cut >= 0 || slot.numel == 0) continue;
    replicated.push_back({slot.begin, slot.begin + slot.numel});
    ends.insert(ends.end(), {slot.begin, slot.begin + slot.numel});
  }
  cut_buckets(run, ends);
  for (const FlatRange& elements : replicated) add_tp_replicated(run, elements);
  set_contract_units(run, layout, units, settings.bucket_numel);
  join_buckets(run);
  if (settings.space == Space::device)
    put_on_device(run, !settings.offload.on());  // the host has a part of it
  return run;
}

void move_to(PredictedStep& run, std::int64_t data_rank) {
  run.instance = static_cast<int>(data_rank / run.world_size);
  set_contract_rank(run, static_cast<int>(data_rank % run.world_size));
}

void set_offload(PredictedStep& run, const FlatLayout& layout, const PlanSettings& settings) {
  if (!settings.offload.on()) return;
  const std::vector<FlatRange> ranges = contract_ranges(run, settings.bucket_numel);
  run.offload = offload_shape(layout, ranges, settings.offload, {}, run.scaled_buffers() > 0);
}

}  // namespace zeroproof::verification
