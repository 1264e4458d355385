#pragma once
// Runs a layer-by-layer pass on thread ranks and compares every received gradient with a whole pass
// of the model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/optimizer/layered/layered_pass.hpp"
#include "tests/cuda/optimizer/overlap/layered_fixtures.hpp"
#include "tests/support/grid.hpp"

namespace zeroproof::tests::inline runtime_fixtures {

struct PassCase {
  int world = 1;  ///< ranks of an instance
  int instances = 1;
  int cp = 1;
  int stage = 3;
  bool overlap = true;
  std::int64_t micro_batches = 3;
  std::int64_t steps = 2;  ///< parameters change in between
  MicroBatchOrder order = MicroBatchOrder::by_stage;
  std::int64_t bucket_numel = 3072;
  std::int64_t persistent_numel = 0;
  DType param_dtype = DType::bf16;
  DType grad_dtype = DType::fp32;
  std::vector<std::size_t> units = {0, 3, 4, 6, 8};  ///< first tensors
  std::vector<int> visits = {0, 1, 2, 3, 4, 0};      ///< unit 0 is tied
  cuda::ExecutorHooks hooks = {};
  std::function<std::unique_ptr<cuda::PlanRunner>()> runner = {};  ///< replaces the default
};

/// Results of one rank.
struct PassResult {
  std::int64_t wrong =
      0;  ///< elements that differ, over all micro-steps and all ranks of the instance
  MemoryUse memory;
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  int num_gathers = 0;
};

/// The micro-batches of a data rank, from R11.
inline std::vector<std::int64_t> micro_batches_of(const PassCase& run, std::int64_t data_rank) {
  const std::int64_t groups = run.world * run.instances / run.cp, group = data_rank / run.cp;
  std::vector<std::int64_t> own;
  for (std::int64_t j = 0; j < run.micro_batches; ++j) {
    const bool contiguous =
        j >= run.micro_batches * group / groups && j < run.micro_batches * (group + 1) / groups;
    if (run.order == MicroBatchOrder::contiguous ? contiguous : j % groups == group)
      own.push_back(j);
  }
  return own;
}

inline std::int64_t wrong_elements(const PassCase& run, const FlatLayout& layout,
                                   const FakeSink& sink, std::int64_t version,
                                   std::int64_t instance) {
  const GuardedBuffer params = whole_params(layout, run.param_dtype, version);
  std::int64_t wrong = 0, steps = 0;
  for (std::int64_t r = 0; r < run.world; ++r) {
    const std::int64_t data_rank = instance * run.world + r;
    const std::vector<std::int64_t> own = micro_batches_of(run, data_rank);
    SyntheticModel model(layout, units_from(layout, run.units), run.visits,
                         static_cast<int>(data_rank % run.cp));
    for (const auto& [step, leaves] : sink.leaves) {
      const auto& leaf = leaves[r];
      if (step < static_cast<std::int64_t>(own.size())) {
        const GuardedBuffer expected =
            expected_leaf(layout, model, params.view(), run.grad_dtype, own[step]);
        wrong += differing(layout, leaf, expected);
      } else {
        wrong += leaf.empty() ? 0 : layout.numel();
      }
    }
    steps = std::max(steps, static_cast<std::int64_t>(own.size()));
  }
  return static_cast<std::int64_t>(sink.leaves.size()) < steps ? layout.numel() : wrong;
}

/// comm: the ranks of an instance; replicas: null with one instance.
inline PassResult run_rank(const PassCase& run, Communicator& comm, Communicator* replicas) {
  const FlatLayout layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), run.world, run.bucket_numel);
  const std::int64_t instance = replicas == nullptr ? 0 : replicas->rank();
  const std::int64_t data_rank = instance * run.world + comm.rank();
  OptimizerSetup setup;
  setup.layout = &layout;
  setup.shards = &shards;
  setup.comm = &comm;
  setup.replicas = replicas;
  setup.cp = run.cp;
  setup.stage = run.stage;
  setup.order = run.order;
  setup.persistent_numel = run.persistent_numel;
  setup.overlap = run.overlap;
  setup.param_dtype = run.param_dtype;
  setup.grad_dtype = run.grad_dtype;
  setup.micro_batches = run.micro_batches;

  SyntheticModel model(layout, units_from(layout, run.units), run.visits,
                       static_cast<int>(data_rank % run.cp));
  FakeGatherer gatherer(comm, layout);
  FakeSink sink(comm, shards, run.grad_dtype);
  cuda::MemoryLedger ledger;
  GuardedBuffer params;
  if (run.stage == 2) params = GuardedBuffer(layout.padded_numel(), run.param_dtype);
  const std::unique_ptr<cuda::PlanRunner> runner = run.runner ? run.runner() : nullptr;
  cuda::LayeredPass pass(setup, model, run.stage == 3 ? &gatherer : nullptr, sink, ledger,
                         params.view(), run.hooks, runner.get());
  PassResult result;
  for (std::int64_t step = 0; step < run.steps; ++step) {
    ++gatherer.casts;
    if (run.stage == 2) {
      const GuardedBuffer now = whole_params(layout, run.param_dtype, gatherer.casts);
      std::memcpy(params.data(), now.data(), static_cast<std::size_t>(now.view().num_bytes()));
    }
    sink.leaves.clear();
    sink.order.clear();
    gatherer.num_gathers = 0;
    pass.run();
    result.wrong += wrong_elements(run, layout, sink, gatherer.casts, instance);
  }
  result.memory = ledger.use();
  result.order = sink.order;
  result.num_gathers = gatherer.num_gathers;
  return result;
}

/// [data ranks]
inline std::vector<PassResult> run_pass(const PassCase& run) {
  const Grid grid{run.instances, run.world};
  std::vector<PassResult> results(grid.size());
  run_grid(grid, [&](const GridPlace& place) {
    results[place.number] = run_rank(run, *place.comm, place.replicas);
  });
  return results;
}

}  // namespace zeroproof::tests::inline runtime_fixtures
