#include <cstring>
#include <memory>

#include "common/comm/self.hpp"
#include "common/comm/threads.hpp"
#include "cuda/distributed_optimizer.hpp"
#include "cuda/enqueued_optimizer.hpp"
#include "cuda/reduce/sources/device_leaf_source.hpp"
#include "cuda/reduce/sources/host_leaf_source.hpp"
#include "verification/bench/device/cases.hpp"
#include "verification/bench/device/suite.hpp"

namespace zeroproof::verification::bench {
namespace {

/// One step in five overflows; the scale grows until fp16 has no room for it.
constexpr int steps = 12;
constexpr cuda::LeafFormula formula{.seed = 7, .overflow_every = 5, .overflow_element = 0};

/// Whether a rank's steps on a device leave the bits of the host's, on the same leaves.
bool same_as_host(const FlatLayout& layout, Communicator& comm, int stage,
                  const std::vector<FlatRange>& units) {
  const ShardMap shards(layout.padded_numel(), comm.world_size(), 4096);
  OptimizerSetup setup = step_setup(layout, shards, comm, stage);
  setup.micro_batches = 3;
  setup.grad_dtype = DType::fp16;
  setup.scaler = {.kind = LossScalerKind::dynamic, .log2_initial = 15, .growth_interval = 2};
  const auto host = cuda::make_distributed_optimizer(setup);
  setup.overlap = !units.empty();
  const auto optimizer = cuda::make_enqueued_optimizer(setup);
  cuda::HostLeafSource host_leaves(formula, layout, setup.grad_dtype,
                                   [&] { return host->loss_scaler().log2_scale; });
  cuda::DeviceLeafSource leaves(formula, layout, setup.grad_dtype, optimizer->log2_loss_scale(), {}, units);
  const FirstState first(layout);
  FullState state = first.view();
  state.scaler = {15, 0, 1};
  host->load_state(state);
  optimizer->load_state(state);
  int skips = 0;
  for (int step = 0; step < steps; ++step) {
    host_leaves.set_step(step);
    leaves.set_step(step);
    if (!host->step(host_leaves)) ++skips;
    optimizer->enqueue_step(leaves);
  }
  const cuda::StepStatus status = optimizer->wait();
  bool same = status.scaler == host->loss_scaler() && status.applied_steps == host->applied_steps();
  for (const Phase phase : {Phase::update, Phase::cast})
    same = same && digest_of(*host, layout, phase) == digest_of(*optimizer, layout, phase);
  return same && skips >= 3 && skips < steps;
}

}  // namespace

std::vector<Check> check_steps() {
  const FlatLayout layout = cut_into(30, 30011);
  const auto self = make_self_communicator();
  std::vector<Check> checks;
  checks.push_back({"steps by a graph on leaves of the device = the host's, overflows included",
                    same_as_host(layout, *self, 1, {})});
  std::vector<FlatRange> units;
  for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
    const bool last = t + 1 == layout.tensors().size();
    units.push_back(
        {layout.tensors()[t].begin, last ? layout.padded_numel() : layout.tensors()[t + 1].begin});
  }
  ThreadWorld world(2);
  bool same[2] = {};
  run_ranks(world, [&](Communicator& comm) { same[comm.rank()] = same_as_host(layout, comm, 2, units); });
  checks.push_back({"the same of two ranks over layers, overlapped, in stage 2", same[0] && same[1]});
  return checks;
}

}  // namespace zeroproof::verification::bench
