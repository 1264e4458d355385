#include "verification/compare/judge/training_rank.hpp"

#include <algorithm>

#include "common/base/float_formats.hpp"
#include "verification/cases/stopwatch.hpp"

namespace zeroproof::verification {
namespace {

/// Values or codes, converted to fp32 exactly.
std::vector<float> floats_of(const GuardedBuffer& buffer) {
  std::vector<float> values(buffer.numel());
  const auto widen = [&](auto format) {
    const auto codes = buffer.as<typename decltype(format)::type>();
    std::ranges::transform(codes, values.begin(), [](auto code) { return to_float(code); });
  };
  switch (buffer.dtype()) {
    case DType::bf16:
      widen(Format<bf16>{});
      break;
    case DType::fp16:
      widen(Format<fp16>{});
      break;
    case DType::e4m3:
      widen(Format<e4m3>{});
      break;
    default:
      widen(Format<float>{});
  }
  return values;
}

}  // namespace

TrainingRank::TrainingRank(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec,
                           const CaseLayout& layout, const Communicators& comms,
                           const RankComparison::MakeOptimizer& make_optimizer)
    : experiment_(experiment),
      leaves_(leaves),
      layout_(layout),
      tp_rank_(layout.place(comms.harness.rank()).tp_rank),
      optimizer_groups_(layout, comms.optimizer),
      harness_groups_(layout, comms.harness),
      maker_(experiment, spec, layout, comms.harness, harness_groups_.tp(), harness_groups_.cp()),
      setup_(experiment.setup()) {
  place_setup(setup_, spec, layout, comms.harness.rank());
  optimizer_groups_.place(setup_);
  optimizer_ = make_optimizer(setup_);
}

void TrainingRank::load(const Snapshot& from) {
  FullState state = from.full();
  Snapshot cut;  // valid until the optimizer has copied it
  if (!layout_.local(tp_rank_).placement.empty()) {
    const auto here = [&](Span<const float> whole) {
      return whole.empty() ? std::vector<float>{} : layout_.to_local(tp_rank_, whole);
    };
    cut.master = here(state.master);
    cut.slots = per_slot([&](StateSlot slot) { return here(state.slots[slot]); });
    cut.slot_scales = from.slot_scales;
    cut.tensor_steps = from.tensor_steps;
    cut.applied_steps = from.applied_steps;
    cut.scaler = from.scaler;
    cut.param_scale = from.param_scale;
    cut.amax_history = from.amax_history;
    state = cut.full();
  }
  optimizer_->load_state(state);
}

TrainingRank::Outcome TrainingRank::step(std::int64_t number, StepObserver* observer,
                                         const std::function<void()>& between) {
  Outcome outcome;
  const Stopwatch making;
  const StepGrads step(maker_, leaves_, *optimizer_, number, optimizer_->loss_scaler().log2_scale);
  ProvidedGrads source(experiment_, number, step.provider(), step.layers());
  outcome.losses = losses_of(step.provider(), maker_.own_micro_batches());
  outcome.gradients_s = making.seconds();
  if (between) between();
  const Stopwatch stepping;
  outcome.skipped = !optimizer_->step(source, observer);
  outcome.optimizer_s = stepping.seconds();
  return outcome;
}

Snapshot TrainingRank::collect() {
  Snapshot state;
  state.applied_steps = optimizer_->applied_steps();
  state.scaler = optimizer_->loss_scaler();
  for (const ExposedBuffer& buffer : optimizer_->exposed(Phase::cast)) {
    if (buffer.id == BufferId::param_scale) {
      const auto* scales = static_cast<const float*>(buffer.view.data);
      state.param_scale.assign(scales, scales + buffer.view.numel);
    } else if (buffer.id == BufferId::amax_history) {
      const auto* words = static_cast<const std::uint32_t*>(buffer.view.data);
      state.amax_history.assign(words, words + buffer.view.numel);
    }
  }
  for (const ExposedBuffer& buffer : optimizer_->exposed(Phase::update)) {
    if (buffer.id == BufferId::tensor_steps) {
      const auto* words = static_cast<const std::uint64_t*>(buffer.view.data);
      state.tensor_steps.assign(words, words + buffer.view.numel);
    }
    std::vector<float>* target = state.buffer(buffer.id);
    if (target == nullptr) continue;
    *target = is_state_scale(buffer.id) ? maker_.collector().collect_scales(buffer)
                                        : floats_of(maker_.collector().collect(buffer.view));
  }
  return state;
}

}  // namespace zeroproof::verification
