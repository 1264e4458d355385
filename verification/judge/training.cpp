#include "verification/judge/training.hpp"

#include <cstring>

#include "common/comm/threads.hpp"
#include "verification/gradients/step_grads.hpp"
#include "verification/judge/rank_groups.hpp"

namespace zeroproof::verification {
namespace {

std::vector<float> copied(Span<const float> values) { return {values.begin(), values.end()}; }

std::vector<float> floats_of(const GuardedBuffer& buffer) { return copied(buffer.as<float>()); }

/// One rank's part of the steps.
class Rank {
 public:
  Rank(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec, const CaseLayout& layout,
       Communicator& world, const RankComparison::MakeOptimizer& make_optimizer)
      : experiment_(experiment),
        leaves_(leaves),
        layout_(layout),
        world_(world),
        groups_(layout, world),
        maker_(experiment, spec, layout, world, groups_.tp(), groups_.cp()) {
    OptimizerSetup setup = experiment.setup();
    place_setup(setup, spec, layout, world.rank());
    groups_.place(setup);
    optimizer_ = make_optimizer(setup);
  }

  void load(const Snapshot& from) {
    const int tp_rank = layout_.place(world_.rank()).tp_rank;
    FullState state = from.full();
    Snapshot cut;  // until the optimizer has copied it
    if (!layout_.local(tp_rank).placement.empty()) {
      const auto here = [&](Span<const float> whole) {
        return whole.empty() ? std::vector<float>{} : layout_.to_local(tp_rank, whole);
      };
      cut.master = here(state.master);
      cut.exp_avg = here(state.exp_avg);
      cut.exp_avg_sq = here(state.exp_avg_sq);
      cut.max_exp_avg_sq = here(state.max_exp_avg_sq);
      cut.momentum_buffer = here(state.momentum_buffer);
      cut.tensor_steps = from.tensor_steps;
      cut.applied_steps = from.applied_steps;
      cut.scaler = from.scaler;
      state = cut.full();
    }
    optimizer_->load_state(state);
  }

  void step(std::int64_t number) {
    const StepGrads step(maker_, leaves_, *optimizer_, number, optimizer_->loss_scaler().log2_scale);
    ProvidedGrads source(experiment_, number, step.provider(), step.layers());
    optimizer_->step(source);
  }

  /// Complete on rank 0. Collective.
  Snapshot collect() {
    Snapshot state;
    state.applied_steps = optimizer_->applied_steps();
    state.scaler = optimizer_->loss_scaler();
    for (const ExposedBuffer& buffer : optimizer_->exposed(Phase::update)) {
      if (buffer.id == BufferId::tensor_steps) {
        const auto* words = static_cast<const std::uint64_t*>(buffer.view.data);
        state.tensor_steps.assign(words, words + buffer.view.numel);
      }
      std::vector<float>* target = state.buffer(buffer.id);
      if (target != nullptr) *target = floats_of(maker_.collector().collect(buffer.view));
    }
    return state;
  }

  DistributedOptimizer& optimizer() { return *optimizer_; }

 private:
  const Experiment& experiment_;
  GradCache& leaves_;
  const CaseLayout& layout_;
  Communicator& world_;
  RankGroups groups_;
  GradMaker maker_;
  std::unique_ptr<DistributedOptimizer> optimizer_;
};

}  // namespace

Snapshot::Snapshot(const FullState& state)
    : master(copied(state.master)),
      exp_avg(copied(state.exp_avg)),
      exp_avg_sq(copied(state.exp_avg_sq)),
      max_exp_avg_sq(copied(state.max_exp_avg_sq)),
      momentum_buffer(copied(state.momentum_buffer)),
      tensor_steps(state.tensor_steps.begin(), state.tensor_steps.end()),
      applied_steps(state.applied_steps),
      scaler(state.scaler) {}

std::vector<float>* Snapshot::buffer(BufferId id) {
  switch (id) {
    case BufferId::master:
      return &master;
    case BufferId::exp_avg:
      return &exp_avg;
    case BufferId::exp_avg_sq:
      return &exp_avg_sq;
    case BufferId::max_exp_avg_sq:
      return &max_exp_avg_sq;
    case BufferId::momentum_buffer:
      return &momentum_buffer;
    default:
      return nullptr;
  }
}

FullState Snapshot::full() const {
  FullState state;
  state.master = master;
  state.exp_avg = exp_avg;
  state.exp_avg_sq = exp_avg_sq;
  state.max_exp_avg_sq = max_exp_avg_sq;
  state.momentum_buffer = momentum_buffer;
  state.tensor_steps = tensor_steps;
  state.applied_steps = applied_steps;
  state.scaler = scaler;
  return state;
}

Digest Snapshot::digest(const FlatLayout& layout) const {
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(applied_steps));
  for (const std::int64_t word :
       {static_cast<std::int64_t>(scaler.log2_scale), static_cast<std::int64_t>(scaler.growth_tracker),
        static_cast<std::int64_t>(scaler.hysteresis_left)}) {
    hasher.add(static_cast<std::uint64_t>(word));
  }
  for (const std::uint64_t steps : tensor_steps) hasher.add(steps);
  for (const TensorSlot& slot : layout.tensors()) {
    for (const std::vector<float>* values :
         {&master, &exp_avg, &exp_avg_sq, &max_exp_avg_sq, &momentum_buffer}) {
      if (values->empty()) continue;
      hasher.add(TensorView{const_cast<float*>(values->data()) + slot.begin, DType::fp32, slot.numel});
    }
  }
  return hasher.digest();
}

Snapshot train(const Experiment& experiment, GradCache& leaves, const CaseSpec& spec, const Snapshot& from,
               std::int64_t first, std::int64_t last, const RankComparison::MakeOptimizer& make_optimizer,
               const std::function<void(const RankOfStep&)>& after) {
  const CaseLayout layout(experiment, spec, spec.world.size);
  ThreadWorld world(spec.world.size);
  Snapshot result;
  run_ranks(world, [&](Communicator& comm) {
    Rank rank(experiment, leaves, spec, layout, comm, make_optimizer);
    rank.load(from);
    for (std::int64_t step = first; step <= last; ++step) {
      rank.step(step);
      if (after) after({step, layout, rank.optimizer(), comm});
    }
    Snapshot state = rank.collect();
    if (comm.rank() == 0) result = std::move(state);
  });
  return result;
}

}  // namespace zeroproof::verification
