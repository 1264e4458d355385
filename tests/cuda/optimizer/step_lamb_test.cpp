// The rule lamb in a step (R6): one rank against the undistributed reference, and every parallel
// configuration and form against one rank.

#include "tests/cuda/optimizer/production_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"
#include "tests/support/dense_world.hpp"
#include "tests/support/values.hpp"

namespace step_lamb_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

World lamb_world(const Grid& grid, int stage, bool fused) {
  World world = production_world(grid, 3);
  world.make = production(fused);
  world.setup.stage = stage;
  world.setup.guards = true;
  world.setup.hyper.rule = UpdateRule::lamb;
  world.setup.hyper.lr = 0.05;
  world.setup.hyper.weight_decay = 0.1;
  world.setup.hyper.max_norm = 0.125;
  return world;
}

void give_groups(World& world) {
  world.setup.groups.rules.resize(1);
  world.setup.groups.rules[0].name = "slow";
  world.setup.groups.rules[0].lr_mult = 0.25;
  world.setup.groups.of_tensor = {0, 1, 0, 1, 0, 0, 1};
}

const float* floats(const StepTruth& step, BufferId id) {
  return static_cast<const float*>(step.at(id).data);
}

/// One rank in phases, fused, and the undistributed reference.
void check_same_results(const WorldTruth& a, const WorldTruth& b) {
  check_same_results(a, b,
                     {BufferId::trust_ratio, BufferId::master, BufferId::exp_avg,
                      BufferId::exp_avg_sq, BufferId::param_full});
}

WorldTruth truth_of(World world, bool fused) {
  world.make = production(fused);
  world.setup.offload = {};
  return truth_of_one_rank(world);
}

}  // namespace

TEST_CASE("lamb step: ratios, masters and moments are those of the undistributed reference") {
  for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
    for (const bool decay : {false, true}) {
      World world = lamb_world({}, 1, false);
      world.setup.missing_grad = missing;
      world.setup.hyper.weight_decay = decay ? 0.1 : 0;
      give_groups(world);
      const WorldTruth truth = truth_of_one_rank(world);
      check_same_results(dense_truth(world), truth);
      std::int64_t scaled = 0;
      for (std::size_t step = 1; step < truth.size(); ++step) {
        for (std::size_t t = 0; t < odd_layout().tensors().size(); ++t)
          scaled += floats(truth[step], BufferId::trust_ratio)[t] != 1 ? 1 : 0;
      }
      CHECK(scaled > 6);
      CHECK(floats(truth[0], BufferId::trust_ratio)[0] == 1);  // after loading
      CHECK(floats(truth[1], BufferId::trust_ratio)[2] == 1);  // the tensor without elements
    }
  }
}

TEST_CASE("lamb step: an update of zeros has the ratio 1") {
  World world = lamb_world({}, 1, false);
  world.setup.hyper.lr = 0;
  const WorldTruth truth = truth_of_one_rank(world);
  check_same_results(dense_truth(world), truth);
  CHECK(floats(truth[1], BufferId::trust_ratio)[3] == 1);
}

TEST_CASE("lamb step: a gradient that is not finite makes the ratio of its tensor NaN") {
  World world = lamb_world({}, 1, false);
  world.setup.on_nonfinite = OnNonfinite::propagate;
  world.overflow_step = 1;
  const WorldTruth truth = truth_of_one_rank(world);
  check_same_results(dense_truth(world), truth);
  int nan_ratios = 0;
  for (std::size_t t = 0; t < odd_layout().tensors().size(); ++t)
    nan_ratios += std::isnan(floats(truth[1], BufferId::trust_ratio)[t]) ? 1 : 0;
  CHECK(nan_ratios > 0);
  for (const bool fused : {false, true}) {
    world.make = production(fused);
    world.setup.stage = 2;
    world.grid.ranks = 3;
    check_against_one_rank(world);
  }
}

TEST_CASE("lamb step: stages and worlds, in phases and fused, have the bits of one rank") {
  World world = lamb_world({}, 0, false);
  give_groups(world);
  world.setup.param_dtype = DType::bf16;
  const WorldTruth phases = truth_of(world, false), passes = truth_of(world, true);
  check_same_results(phases, passes);
  for (const bool fused : {false, true}) {
    world.make = production(fused);
    for (const int stage : {0, 1, 2, 3}) {
      for (const int ranks : {1, 2, 3, 4}) {
        for (const int threads : {1, 3}) {
          world.setup.stage = stage;
          world.grid.ranks = ranks;
          world.setup.exec.num_threads = threads;
          check_world(world, fused ? passes : phases, fused ? "fused" : "phases");
        }
      }
    }
  }
}

TEST_CASE("lamb step: missing gradients, skipped steps, drawn parameters, and ragged shards") {
  for (const bool fused : {false, true}) {
    for (const int stage : {0, 1, 2, 3}) {
      World world = lamb_world({1, 3}, stage, fused);
      world.shards = ragged_map;
      world.steps = 3;
      world.overflow_step = fused ? 0 : 2;
      world.setup.missing_grad = MissingGrad::skip;
      world.setup.param_rounding = ParamRounding::stochastic;
      world.setup.hyper.norm = NormForm::exact;
      world.setup.hyper.clip_value = 0.01;
      check_against_one_rank(world);
    }
  }
}

TEST_CASE("lamb step: a single micro-batch whose 16-bit gradient is G") {
  for (const bool fused : {false, true}) {
    World world = lamb_world({}, 1, fused);
    world.setup.micro_batches = 1;
    world.setup.grad_dtype = DType::bf16;
    check_same_results(truth_of(world, false), truth_of(world, true));
    check_against_one_rank(world);
  }
}

TEST_CASE("lamb step: elements replicated over TP ranks and instances are counted once") {
  for (const Grid& grid :
       {Grid{1, 1, 2, 1}, Grid{1, 3, 2, 1}, Grid{2, 2, 2, 1}, Grid{3, 1, 1, 1}}) {
    for (const bool fused : {false, true}) {
      for (const int stage : {0, 1, 3}) {
        World world = lamb_world(grid, stage, fused);
        world.tensors = {{{"gain", {37}},
                          {"column", {60, grid.tp * 9}},
                          {"row", {grid.tp * 5, 17}},
                          {"bias", {1030}}},
                         {-1, 1, 0, -1}};
        world.shards = ragged_map;
        world.setup.hyper.norm = NormForm::exact;
        check_against_one_rank(world);
      }
    }
  }
}

TEST_CASE("lamb step: state and master in fewer bits, which are decoded for the norms") {
  for (const StateFormats& state : state_formats) {
    World world = lamb_world({}, 2, false);
    world.setup.state_formats = state;
    world.setup.hyper.norm = NormForm::exact;
    world.setup.param_rounding = ParamRounding::stochastic;
    world.setup.missing_grad = MissingGrad::skip;
    const WorldTruth phases = truth_of(world, false), passes = truth_of(world, true);
    check_same_results(phases, passes);
    check_same_results(phases, dense_truth(world));
    for (const bool fused : {false, true}) {
      world.make = production(fused);
      for (const int ranks : {1, 3}) {
        for (const bool cut : {false, true}) {
          world.grid.ranks = ranks;
          world.setup.exec.num_threads = ranks;
          world.shards = cut ? dealt_map(Dealt::stretches) : World::contract_map(2048);
          world.setup.offload = {};
          check_world(world, fused ? passes : phases);
          world.setup.offload = {0.5, OffloadOrder::flat, OffloadPlace::file, 300, true, {}, cut};
          check_world(world, fused ? passes : phases, "offload");
        }
      }
    }
  }
}

TEST_CASE("lamb step: 8-bit parameters") {
  for (const bool fused : {false, true}) {
    World world = lamb_world({1, 2}, 2, fused);
    world.setup.param_dtype = DType::e4m3;
    check_against_one_rank(world);
    world.setup.offload.fraction = 0.6;
    world.setup.offload.chunk_numel = 500;
    check_world(world, truth_of(world, fused), "offload");
  }
}

TEST_CASE("lamb step: its memory is that of adamw") {
  MemoryUse use[2];
  for (const bool lamb : {false, true}) {
    World world = lamb_world({}, 1, true);
    if (!lamb) world.setup.hyper.rule = UpdateRule::adamw;
    check_ranks(world, "", [&](WorldRank& rank) {
      rank.load();
      rank.prepare_grads(1);
      rank.optimizer->step(rank.grads);
      use[lamb ? 1 : 0] = rank.optimizer->memory();
      return std::string();
    });
  }
  CHECK(use[0].peak == use[1].peak);
  CHECK(use[0].total_peak == use[1].total_peak);
}

}  // namespace step_lamb_test
