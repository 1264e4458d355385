// Steps of LAMB on a device (R6): ratios and masters of the reference on one rank; the bits of the
// host on every partition, in phases, in two passes, enqueued, replayed and offloaded.

#include <doctest.h>

#include <string>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/optimizer/production_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"
#include "tests/cuda/optimizer/state_tensors.hpp"
#include "tests/support/dense_world.hpp"

namespace lamb_step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// Two groups, one without decay.
World lamb_world(const Grid& grid) {
  World world = production_world(grid, 3);
  world.on_device = true;
  world.setup.hyper.rule = UpdateRule::lamb;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.groups.rules.resize(1);
  world.setup.groups.rules[0].name = "fast";
  world.setup.groups.rules[0].lr_mult = 3;
  world.setup.groups.rules[0].weight_decay_mult = 0;
  world.setup.groups.of_tensor = {0, 1, 0, 1, 0, 1, 0};
  return world;
}

EnqueuedRank::Params long_params() {
  return {{"a", {70}}, {"none", {0}}, {"b", {67, 1024}}, {"c", {1}}};
}

}  // namespace

TEST_CASE("LAMB on a device: one rank has the ratios and the state of the reference") {
  if (!cuda::device::device_info().answers) return;
  for (const bool fused : {false, true}) {
    for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
      for (const OnNonfinite on_nonfinite : {OnNonfinite::skip, OnNonfinite::propagate}) {
        CAPTURE(fused);
        World world = lamb_world({});
        world.steps = 3;
        world.overflow_step = 2;
        world.setup.missing_grad = missing;
        world.setup.on_nonfinite = on_nonfinite;
        world.setup.hyper.maximize = fused;
        world.make = production(fused, Space::device);
        check_same_results(
            dense_truth(world), truth_of_one_rank(world),
            {BufferId::trust_ratio, BufferId::master, BufferId::exp_avg, BufferId::exp_avg_sq});
      }
    }
  }
}

TEST_CASE("LAMB on a device: any partition equals one host rank, in phases and in two passes") {
  if (!cuda::device::device_info().answers) return;
  for (const bool fused : {false, true}) {
    for (const int stage : {0, 1, 2, 3}) {
      World world = lamb_world({});
      world.setup.stage = stage;
      world.setup.missing_grad = stage % 2 == 0 ? MissingGrad::skip : MissingGrad::zero;
      world.make = production(fused);
      const WorldTruth truth = truth_of_one_rank(world);
      world.make = production(fused, Space::device);
      world.grid = {stage == 2 ? 2 : 1, stage == 1 ? 4 : 2};
      world.shards = stage < 2 ? ragged_map : World::contract_map(2048);
      check_world(world, truth, "LAMB on a device");
      if (stage != 3) continue;
      world.grid = {1, 3};  // two of them have no element
      world.shards = dealt_map(Dealt::last_rank);
      check_world(world, truth, "LAMB on a device");
    }
  }
}

TEST_CASE("LAMB on a device: tensors of several TP ranks have one ratio") {
  if (!cuda::device::device_info().answers) return;
  for (const CutTensors& tensors : {split_blocks(), uneven_blocks()}) {
    for (const bool fused : {false, true}) {
      World world = lamb_world({1, 2, 2});
      world.tensors = tensors;
      world.setup.groups = {};
      world.make = production(fused);
      const WorldTruth truth = truth_of_one_rank(world);
      world.make = production(fused, Space::device);
      for (const int stage : {0, 2}) {
        world.setup.stage = stage;
        check_world(world, truth, "LAMB on a device");
      }
    }
  }
}

TEST_CASE("LAMB on a device: state and master that are not fp32, also partly offloaded") {
  if (!cuda::device::device_info().answers) return;
  for (const StateFormats& state : state_formats) {
    for (const bool fused : {false, true}) {
      World world = lamb_world({1, 3});
      world.setup.state_formats = state;
      world.setup.missing_grad = fused ? MissingGrad::skip : MissingGrad::zero;
      world.setup.stage = 2;
      world.make = production(fused);
      const WorldTruth truth = truth_of_one_rank(world);
      world.make = production(fused, Space::device);
      world.shards = dealt_map(Dealt::stretches);
      for (const double fraction : {0.0, 0.45, 1.0}) {
        world.setup.offload = {fraction, OffloadOrder::flat, OffloadPlace::host, 700, true, {},
                               fused};
        check_world(world, truth, "LAMB on a device, offloaded " + std::to_string(fraction));
      }
    }
  }
}

TEST_CASE("LAMB on a device: offloaded elements are a part of their tensors' norms") {
  if (!cuda::device::device_info().answers) return;
  for (const bool fused : {false, true}) {
    World world = lamb_world({});
    world.make = production(fused);
    const WorldTruth truth = truth_of_one_rank(world);
    world.make = production(fused, Space::device);
    for (const int stage : {0, 2}) {
      for (const double fraction : {0.3, 1.0}) {
        for (const bool grads : {false, true}) {
          world.grid = {1, stage == 0 ? 1 : 2};
          world.setup.stage = stage;
          world.setup.offload = {fraction, OffloadOrder::flat, OffloadPlace::file, 700, true, {},
                                 grads};
          check_world(world, truth, "LAMB offloaded " + std::to_string(fraction));
        }
      }
    }
  }
}

TEST_CASE("LAMB on a device: enqueued and replayed steps, some skipped, have the host's bits") {
  if (!cuda::device::device_info().answers) return;
  for (const bool graphs : {false, true}) {
    for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
      for (const bool stored : {false, true}) {
        CAPTURE(graphs);
        CAPTURE(stored);
        EnqueuedRank rank(graphs, OnNonfinite::skip, long_params());
        rank.setup.hyper.rule = UpdateRule::lamb;
        rank.setup.missing_grad = missing;
        if (stored) rank.setup.state_formats = state_formats[1];
        rank.remake(2, graphs);
        check_each_step(rank, rank.state(3));
      }
    }
  }
}

TEST_CASE(
    "LAMB on a device: an enqueued step adds two launches and one copy, and waits for nothing") {
  if (!cuda::device::device_info().answers) return;
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    EnqueuedRank rank(graphs);
    rank.setup.hyper.rule = UpdateRule::lamb;
    rank.remake(2, graphs);
    DeviceGrads leaves(rank, 2);
    rank.optimizer->load_state(rank.state());
    for (int step = 1; step <= 5; ++step) {
      rank.optimizer->enqueue_step(leaves);
      const cuda::DeviceCalls calls = rank.optimizer->calls();
      if (step < 3) continue;
      CHECK(calls.waits == 0);
      CHECK(calls.allocations == 0);
      CHECK(calls.graph_launches == (graphs ? 1 : 0));
      // Decision, norms, ratios, update; clearing results and norms, the status.
      CHECK(calls.launches == leaves.kernels() + (graphs ? 0 : 4));
      CHECK(calls.copies == (graphs ? 2 : 3));
    }
    CHECK(rank.optimizer->wait().applied_steps == 5);
  }
}

TEST_CASE("LAMB on a device: enqueued steps of ranks that meet on the host or in a graph") {
  if (!cuda::device::device_info().answers) return;
  for (const int stage : {0, 2}) {
    for (const int ranks : {2, 3}) {
      run_grid({1, ranks}, [&](const GridPlace& place) {
        EnqueuedRank rank(true, OnNonfinite::skip, long_params(), place.comm, Transport::copies);
        rank.shards = dealt_map(rank.layout, ranks, Dealt::stretches);
        rank.setup.hyper.norm = NormForm::exact;
        rank.setup.hyper.rule = UpdateRule::lamb;
        rank.setup.stage = stage;
        rank.remake(2, true);
        check_last_step(rank);
      });
    }
  }
}

TEST_CASE("LAMB on a device: enqueued steps with offloaded state have the host's bits") {
  if (!cuda::device::device_info().answers) return;
  for (const bool graphs : {false, true}) {
    for (const double fraction : {0.3, 1.0}) {
      CAPTURE(graphs);
      CAPTURE(fraction);
      EnqueuedRank rank(graphs);
      rank.setup.hyper.rule = UpdateRule::lamb;
      rank.setup.offload = {fraction, OffloadOrder::flat, OffloadPlace::host, 1000, true, {},
                            graphs};
      rank.setup.missing_grad = graphs ? MissingGrad::skip : MissingGrad::zero;
      rank.remake(2, graphs);
      check_offloaded_steps(rank, graphs);
    }
  }
}

}  // namespace lamb_step_test
