#include "verification/tools/plan/measured_plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/comm/recording.hpp"
#include "common/comm/threads.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "verification/tools/plan/planned_matrices.hpp"

namespace zeroproof::verification {
namespace {

/// Gradients of zeros, layer by layer: bytes do not depend on values.
class PlannedGrads final : public GradSource, public LayeredModel {
 public:
  PlannedGrads(const FlatLayout& layout, DType dtype, std::vector<FlatRange> units)
      : whole_(layout.padded_numel(), dtype), units_(std::move(units)) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      visits_.push_back(static_cast<int>(unit));
  }

  TensorView micro_batch_grad(std::int64_t) override {
    clear(whole_.view());
    return whole_.view();
  }
  LayeredModel* layers() override { return this; }
  const std::vector<FlatRange>& units() const override { return units_; }
  const std::vector<int>& visits() const override { return visits_; }
  void set_scales(Span<const float>) override {}
  void begin(std::int64_t) override {}
  void forward(int, const TensorView&) override {}
  void backward(int, const TensorView&, const TensorView& grad) override { clear(grad); }

 private:
  static void clear(const TensorView& view) {
    if (view.numel > 0) std::memset(view.data, 0, static_cast<std::size_t>(view.num_bytes()));
  }

  GuardedBuffer whole_;
  std::vector<FlatRange> units_;
  std::vector<int> visits_;
};

void require_measurable(const Plan& plan) {
  const PlanSettings& s = plan.settings;
  const auto refuse = [](bool wrong, const std::string& what, const std::string& why) {
    ZP_CHECK(!wrong, ErrorCode::config, "--measure was given with " + what, why,
             "leave --measure out, or plan for something smaller or simpler");
  };
  refuse(s.space != Space::host, "--space device", "only ranks on the host are measured");
  refuse(s.grid.tp > 1, "tensor parallelism", "split tensors are planned but not measured");
  refuse(s.clip_groups > 1, "--clip-groups", "a plan does not assign tensors to groups");
  refuse(
      s.grid.world_size() > most_measured_ranks, std::to_string(s.grid.world_size()) + " ranks",
      "they run as threads of this process, " + std::to_string(most_measured_ranks) + " at most");
  const std::int64_t most =
      most_measured_leaf_elements / std::max<std::int64_t>(1, plan.padded_numel);
  const std::int64_t leaves = std::max<std::int64_t>(s.micro_batches, s.grid.world_size());
  refuse(leaves > most,
         std::to_string(plan.padded_numel) + " elements, " + std::to_string(s.grid.world_size()) +
             " ranks and M = " + std::to_string(s.micro_batches),
         "elements times the larger of the other two are limited to " +
             std::to_string(most_measured_leaf_elements));
}

struct Counted {
  MemoryUse memory;
  TrafficEntry sent;
};

/// The second step of one rank: the first one allocates the memory that later ones reuse.
Counted measured_rank(OptimizerSetup setup, const ProcessGrid& grid, int instances,
                      const FlatLayout& layout, const std::vector<FlatRange>& units,
                      Communicator& all) {
  const int ranks = grid.data_ranks() / instances;
  const auto comm = all.split(all.rank() / ranks);
  const auto replicas = all.split(all.rank() % ranks);
  RecordingCommunicator shards(*comm);
  RecordingCommunicator others(*replicas);
  setup.comm = &shards;
  if (instances > 1) setup.replicas = &others;
  const std::vector<float> zeros(layout.padded_numel(), 0.0F);
  FullState state;
  state.master = zeros;
  for (Span<const float>& slot : state.slots) slot = zeros;
  const auto optimizer = cuda::make_distributed_optimizer(setup, Space::host, false);
  optimizer->load_state(state);
  PlannedGrads grads(layout, setup.grad_dtype, units);
  optimizer->step(grads);
  shards.reset();
  others.reset();
  optimizer->step(grads);
  Counted counted{optimizer->memory(), shards.traffic().total()};
  if (instances > 1) counted.sent += others.traffic().total();
  return counted;
}

MeasuredStage measured_stage(const PlanSettings& settings, const PlannedModel& model,
                             const FlatLayout& layout, const std::vector<FlatRange>& units,
                             const StagePlan& stage) {
  const int data_ranks = settings.grid.data_ranks();
  const ShardMap shards(layout.padded_numel(), data_ranks / settings.instances,
                        settings.bucket_numel);
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.stage = stage.stage;
  setup.cp = settings.grid.cp;
  setup.micro_batches = settings.micro_batches;
  setup.order = settings.order;
  setup.windows = settings.windows;
  setup.offload = settings.offload;
  setup.param_dtype = settings.param_dtype;
  setup.scaling = settings.scaling;
  setup.grad_dtype = settings.grad_dtype;
  setup.hyper = settings.hyper;
  setup.state_formats = settings.state_formats;
  if (traits_of(settings.hyper.rule).matrices)
    setup.matrix_tensors = planned_matrix_tensors(settings, model);
  setup.matrix_owners = settings.matrix_owners;
  setup.matrix_tensor_parallel = settings.matrix_tensor_parallel;
  std::vector<Counted> ranks(data_ranks);
  ThreadWorld world(data_ranks);
  run_ranks(world, [&](Communicator& all) {
    ranks[all.rank()] = measured_rank(setup, settings.grid, settings.instances, layout, units, all);
  });
  MeasuredStage measured;
  measured.least = ranks.front().memory.peak;
  for (const Counted& rank : ranks) {
    for (std::size_t c = 0; c < measured.most.size(); ++c) {
      measured.most[c] = std::max(measured.most[c], rank.memory.peak[c]);
      measured.least[c] = std::min(measured.least[c], rank.memory.peak[c]);
    }
  }
  const auto of = [&](const RankPlan& planned) { return ranks[planned.data_rank]; };
  measured.smallest = of(stage.smallest).memory;
  measured.largest = of(stage.largest).memory;
  measured.messages = of(stage.largest).sent.messages_sent;
  measured.sent_bytes = of(stage.largest).sent.bytes_sent;
  return measured;
}

}  // namespace

void measure(const PlannedModel& model, Plan& plan) {
  require_measurable(plan);
  const FlatLayout layout(tp_shapes(model, 1));
  const std::vector<FlatRange> units = named_units(layout);
  for (StagePlan& stage : plan.stages)
    stage.measured = measured_stage(plan.settings, model, layout, units, stage);
}

std::int64_t bytes_apart(const StagePlan& stage) {
  if (!stage.measured) return 0;
  const MeasuredStage& is = *stage.measured;
  std::int64_t apart = 0;
  const auto add = [&](std::int64_t measured, std::int64_t planned) {
    apart += std::abs(measured - planned);
  };
  for (std::size_t c = 0; c < is.most.size(); ++c) {
    add(is.most[c], stage.most[c]);
    add(is.least[c], stage.least[c]);
  }
  add(is.smallest.total_peak, stage.smallest.memory.total_peak);
  add(is.largest.total_peak, stage.largest.memory.total_peak);
  add(is.smallest.total_now, stage.smallest.memory.total_now);
  add(is.largest.total_now, stage.largest.memory.total_now);
  for (const auto& [measured, planned] : {std::pair{&is.smallest, &stage.smallest.memory},
                                          std::pair{&is.largest, &stage.largest.memory}}) {
    add(measured->offloaded_host, planned->offloaded_host);
    add(measured->offloaded_file, planned->offloaded_file);
  }
  add(is.sent_bytes, stage.largest.traffic.sent_bytes());
  return apart;
}

}  // namespace zeroproof::verification
