#include "verification/interfaces/python/src/extension/virtual_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/error.hpp"
#include "common/base/fpenv.hpp"
#include "common/comm/threads.hpp"
#include "common/step/state_buffers.hpp"
#include "reference/distributed_optimizer.hpp"

namespace zeroproof::python {
namespace {

class GivenGrads final : public GradSource {
 public:
  GivenGrads(const StepInput& input, DType dtype, std::int64_t numel)
      : input_(input), dtype_(dtype), numel_(numel) {}

  TensorView micro_batch_grad(std::int64_t micro_batch) override {
    const std::vector<std::byte>& leaf = input_.leaves[micro_batch];
    copy_ = leaf;  // a private copy: ranks must not share gradients
    return {copy_.data(), dtype_, numel_};
  }

 private:
  const StepInput& input_;
  DType dtype_;
  std::int64_t numel_;
  std::vector<std::byte> copy_;
};

class Recorder final : public StepObserver {
 public:
  Recorder(int rank, std::vector<ObservedBuffer>& observers) : rank_(rank), taps_(observers) {}

  void observe(Phase phase, const ExposedBuffer& buffer) override {
    if (buffer.view.data == nullptr) return;
    const auto* bytes = static_cast<const std::byte*>(buffer.view.data);
    taps_.push_back({phase,
                     rank_,
                     buffer.id,
                     buffer.ranges,
                     buffer.view.dtype,
                     {bytes, bytes + buffer.view.num_bytes()}});
  }

 private:
  int rank_;
  std::vector<ObservedBuffer>& taps_;
};

/// Copies a rank's elements to their places in the undistributed buffer.
void place(const ExposedBuffer& from, std::byte* to) {
  const std::int64_t width = num_bytes(from.view.dtype);
  const auto* bytes = static_cast<const std::byte*>(from.view.data);
  for (const FlatRange& range : from.ranges) {
    const auto size = static_cast<std::size_t>(range.numel() * width);
    std::memcpy(to + range.begin * width, bytes, size);
    bytes += size;
  }
}

FullState state_of(const StepInput& input) {
  FullState state;
  state.master = input.master;
  for (const auto& [slot, values] : input.kept) state.slots[slot] = values;
  state.applied_steps = input.applied_steps;
  state.scaler = input.scaler;
  return state;
}

OptimizerSetup setup_of(const StepRequest& request, const FlatLayout& layout,
                        const ShardMap& shards, std::int64_t micro_batches) {
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.param_dtype = request.param_dtype;
  setup.grad_dtype = request.grad_dtype;
  setup.micro_batches = micro_batches;
  setup.hyper = request.hyper;
  setup.scaler = request.scaler;
  setup.on_nonfinite = request.on_nonfinite;
  setup.grad_sum = request.grad_sum;
  setup.groups = make_param_groups(request.param_groups, {}, layout);
  setup.clip_groups = make_clip_groups(request.clip_groups, layout);
  if (traits_of(request.hyper.rule).matrices)
    setup.matrix_tensors = make_matrix_tensors(request.adamw, request.matrix_splits, layout);
  setup.stage = request.stage;
  setup.order = request.order;
  setup.guards = true;
  return setup;
}

/// The buffers of one rank after its step. Ranks own different elements, so they write to different
/// places.
void collect(DistributedOptimizer& optimizer, StepOutput& output) {
  for (const ExposedBuffer& buffer : optimizer.storage()) {
    const auto kept = output.kept.find(buffer.id);
    if (kept != output.kept.end()) place(buffer, reinterpret_cast<std::byte*>(kept->second.data()));
    if (buffer.id == BufferId::param_shard) place(buffer, output.param.data());
  }
}

}  // namespace

StepOutput step_on_virtual_ranks(const FlatLayout& layout, const StepInput& input,
                                 const StepRequest& request) {
  require_fp_environment("the thread that starts the ranks");
  const std::int64_t numel = layout.padded_numel();
  const ShardMap shards(numel, request.world_size, request.bucket_numel);
  StepOutput output;
  output.kept[BufferId::master].resize(numel);
  for (const StateSlot slot : kept_slots(request.hyper)) output.kept[buffer_of(slot)].resize(numel);
  output.param.resize(numel * num_bytes(request.param_dtype));
  const std::size_t clip_groups = request.clip_groups.size() + 1;
  output.grad_norm.assign(clip_groups, std::numeric_limits<double>::quiet_NaN());
  output.clip_coef.assign(clip_groups, std::numeric_limits<float>::quiet_NaN());

  std::vector<std::vector<ObservedBuffer>> observers(request.world_size);
  const OptimizerSetup shared =
      setup_of(request, layout, shards, static_cast<std::int64_t>(input.leaves.size()));
  ThreadWorld world(request.world_size);
  run_ranks(world, [&](Communicator& comm) {
    OptimizerSetup setup = shared;
    setup.comm = &comm;
    const auto optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state(state_of(input));
    GivenGrads leaves(input, request.grad_dtype, numel);
    Recorder recorder(comm.rank(), observers[comm.rank()]);
    const bool applied = optimizer->step(leaves, &recorder);
    for (int rank = 0; rank < comm.world_size();
         ++rank) {  // replicated buffers are written by every rank, in turn
      if (rank == comm.rank()) collect(*optimizer, output);
      comm.barrier();
    }
    if (comm.rank() != 0) return;
    output.skipped = !applied;
    output.applied_steps = optimizer->applied_steps();
    output.scaler = optimizer->loss_scaler();
  });
  for (const ObservedBuffer& observer : observers[0]) {
    if (observer.buffer == BufferId::grad_norm)
      std::memcpy(output.grad_norm.data(), observer.bytes.data(), observer.bytes.size());
    if (observer.buffer == BufferId::clip_coef)
      std::memcpy(output.clip_coef.data(), observer.bytes.data(), observer.bytes.size());
  }
  if (!request.observers) return output;
  for (auto& rank : observers)
    std::move(rank.begin(), rank.end(), std::back_inserter(output.observers));
  std::stable_sort(
      output.observers.begin(), output.observers.end(),
      [](const ObservedBuffer& a, const ObservedBuffer& b) { return a.phase < b.phase; });
  return output;
}

}  // namespace zeroproof::python
