#include <algorithm>

#include "reference/distributed_optimizer.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/compare/judge/dense_baseline.hpp"
#include "verification/compare/judge/self_test.hpp"
#include "verification/compare/judge/training.hpp"

namespace zeroproof::verification {
namespace {

/// byte_gpt_tiny under a recipe, by the undistributed optimizer: the trajectory that every case of it must have.
Digest trajectory(const workload::Text& text, const std::string& recipe, DType dtype) {
  const Experiment experiment("byte_gpt_tiny",
                              under_recipe(workload_defaults("byte_gpt_tiny"), recipe), dtype, text,
                              recipe);
  GradCache leaves(experiment);
  DenseBaseline baseline(experiment, leaves);
  for (std::int64_t step = 1; step <= experiment.config().steps; ++step) {
    baseline.step(step);
    leaves.forget();
  }
  return *baseline.trace().hash;
}

/// Two steps of the reference on ranks of this process, with their coordinates and elements.
Digest on_grid(const workload::Text& text, const std::string& grid, int stage, LayoutKind kind,
               int instances) {
  RunConfig config = under_recipe(workload_defaults("byte_gpt_tiny"), "sgd");
  config.model.width = 20;  // heads divisible among TP ranks
  config.model.heads = 4;
  const Experiment experiment("byte_gpt_tiny", config, DType::bf16, text, "sgd");
  CaseSpec spec;
  spec.workload = experiment.workload();
  spec.recipe = experiment.recipe();
  spec.stage = stage;
  spec.bucket_numel = 4096;
  spec.place.grid = parse_grid(grid);
  spec.place.layout = kind;
  spec.place.instances = instances;
  spec.world = {WorldSpec::Kind::threads, spec.place.grid->world_size()};
  GradCache leaves(experiment);
  const Snapshot state = train(
      experiment, leaves, spec, Snapshot(experiment.initial_state()), 1, 2,
      [](const OptimizerSetup& setup) { return reference::make_distributed_optimizer(setup); });
  Hasher hasher;
  const Digest end = state.digest(experiment.layout());
  hasher.add(end.high);
  hasher.add(end.low);
  const CaseLayout layout(experiment, spec, spec.world.size);
  for (int rank = 0; rank < spec.world.size; ++rank) {
    const RankCoords place = layout.place(rank);
    for (const int word :
         {place.data_rank, place.cp_rank, place.tp_rank, place.instance, place.shard_rank}) {
      hasher.add(static_cast<std::uint64_t>(word));
    }
    for (const FlatRange& range : layout.local(place.tp_rank).shards.shard(place.shard_rank)) {
      hasher.add(static_cast<std::uint64_t>(range.begin));
      hasher.add(static_cast<std::uint64_t>(range.end));
    }
  }
  return hasher.digest();
}

}  // namespace

std::vector<SelfTestRow> self_test_trajectories(const workload::Text& text) {
  std::vector<SelfTestRow> rows;
  const auto train_row = [&](const std::string& recipe, DType dtype) {
    rows.push_back({"trajectory byte_gpt_tiny/" + recipe + "/" + std::string(name(dtype)),
                    [text, recipe, dtype] { return trajectory(text, recipe, dtype); }});
  };
  train_row("adamw", DType::fp16);
  train_row("adamw", DType::bf16);
  train_row("adamw-groups", DType::fp32);
  train_row("adamw-stochastic", DType::bf16);
  train_row("adamw-tokens", DType::fp16);
  train_row("fp8-current", DType::e4m3);
  train_row("fp8-delayed", DType::e5m2);
  const auto grid_row = [&](const std::string& grid, int stage, LayoutKind kind, int instances) {
    rows.push_back({"trajectory of grid " + grid + " stage " + std::to_string(stage),
                    [=] { return on_grid(text, grid, stage, kind, instances); }});
  };
  grid_row("3x1x1", 2, LayoutKind::contract, 1);
  grid_row("2x1x2", 3, LayoutKind::fsdp2, 1);
  grid_row("2x2x1", 1, LayoutKind::contract, 2);
  return rows;
}

}  // namespace zeroproof::verification
