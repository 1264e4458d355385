// Steps of Muon on a device (R28) with the bits of the host on every partition: in phases, in two
// passes, enqueued and replayed.

#include <doctest.h>

#include <string>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/optimizer/muon_world.hpp"

namespace muon_step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MatrixOwners all_owners[] = {MatrixOwners::every, MatrixOwners::round_robin,
                                       MatrixOwners::balanced};

WorldTruth host_truth(World world, bool fused) {
  world.on_device = false;
  world.make = production(fused);
  return truth_of_one_rank(world);
}

/// The world on a device, with every owner of matrices that makes a difference.
void check_on_device(World world, bool fused, const WorldTruth& truth) {
  world.on_device = true;
  world.make = production(fused, Space::device);
  const bool moves = world.setup.stage > 0 && world.grid.ranks > 1;
  for (const MatrixOwners owners : all_owners) {
    if (!moves && owners != MatrixOwners::every) continue;
    world.setup.matrix_owners = owners;
    check_world(
        world, truth,
        "Muon on a device, " + std::string(names_of(owners)[static_cast<std::size_t>(owners)]));
  }
}

}  // namespace

TEST_CASE("Muon on a device: stages and worlds equal one host rank, in phases and in two passes") {
  if (!cuda::device::device_info().answers) return;
  for (const bool fused : {false, true}) {
    World world = muon_world({}, 0, fused);
    world.setup.groups.rules.resize(1);
    world.setup.groups.rules[0].name = "slow";
    world.setup.groups.rules[0].lr_mult = 0.25;
    world.setup.groups.of_tensor = {0, 1, 1, 1, 0, 0, 1, 0, 1, 1};
    const WorldTruth truth = host_truth(world, fused);
    for (const int stage : {0, 1, 2, 3}) {
      for (const int ranks : {1, 2, 3}) {
        world.setup.stage = stage;
        world.grid.ranks = ranks;
        check_on_device(world, fused, truth);
      }
    }
  }
}

TEST_CASE(
    "Muon on a device: missing gradients, skipped steps, drawn parameters, clipped elements") {
  if (!cuda::device::device_info().answers) return;
  for (const bool fused : {false, true}) {
    for (const int stage : {0, 2}) {
      World world = muon_world({1, 3}, stage, fused);
      world.steps = 4;
      world.setup.missing_grad = MissingGrad::skip;
      world.setup.param_rounding = ParamRounding::stochastic;
      world.setup.hyper.clip_value = 0.01;
      world.setup.hyper.maximize = stage == 0;
      world.setup.hyper.weight_decay = stage == 0 ? 0.1 : 0;
      world.setup.hyper.muon.family = stage == 0 ? MomentumFamily::heavy_ball : MomentumFamily::ema;
      check_on_device(world, fused, host_truth(world, fused));
      if (fused) continue;      // in a skipped step its limbs of the norm are those of one rank
      world.overflow_step = 2;  // where a device exposes other ones than the host
      world.on_device = true;
      world.make = production(fused, Space::device);
      check_on_device(world, fused, truth_of_one_rank(world));
    }
  }
}

TEST_CASE("Muon on a device: gradients that are not finite, clip groups, parameters in 8 bits") {
  if (!cuda::device::device_info().answers) return;
  for (const bool fused : {false, true}) {
    World world = muon_world({1, 2}, 2, fused);
    world.setup.on_nonfinite = OnNonfinite::propagate;
    world.overflow_step = 1;
    world.setup.param_dtype = fused ? DType::e4m3 : DType::fp16;
    world.setup.clip_groups.rules = {{"first", {}, false, 0.5}, {"second", {}, false, {}}};
    world.setup.clip_groups.of_tensor = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
    world.shards = dealt_map(Dealt::tensors);
    check_on_device(world, fused, host_truth(world, fused));
  }
}

TEST_CASE("Muon on a device: TP ranks and instances have the bits of one host rank") {
  if (!cuda::device::device_info().answers) return;
  for (const Grid& grid : {Grid{1, 1, 2, 1}, Grid{1, 2, 2, 1}, Grid{2, 2, 1, 1}}) {
    for (const bool fused : {false, true}) {
      World world = muon_tp_world(grid, fused ? 1 : 3, fused);
      world.setup.missing_grad = fused ? MissingGrad::skip : MissingGrad::zero;
      check_on_device(world, fused, host_truth(world, fused));
    }
  }
}

TEST_CASE("Muon on a device: enqueued and replayed steps, some skipped, have the host's bits") {
  if (!cuda::device::device_info().answers) return;
  for (const bool graphs : {false, true}) {
    for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
      CAPTURE(graphs);
      EnqueuedRank rank(graphs, OnNonfinite::skip, muon_params());
      use_muon(rank);
      rank.setup.missing_grad = missing;
      rank.remake(2, graphs);
      check_each_step(rank, rank.state(3));
    }
  }
}

TEST_CASE("Muon on a device: an enqueued step waits for nothing and allocates nothing") {
  if (!cuda::device::device_info().answers) return;
  for (const bool graphs : {false, true}) {
    CAPTURE(graphs);
    EnqueuedRank rank(graphs, OnNonfinite::skip, muon_params());
    use_muon(rank);
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
      // Decision, momentum, two updates; elements into matrices and back; four kernels and three
      // products per step of the iteration for each of four parts.
      CHECK(calls.launches == leaves.kernels() + (graphs ? 0 : 6 + 4 * (4 + 3 * 2)));
    }
    CHECK(rank.optimizer->wait().applied_steps == 5);
  }
}

TEST_CASE("Muon on a device: enqueued steps of ranks that meet on the host") {
  if (!cuda::device::device_info().answers) return;
  for (const int stage : {0, 1, 3}) {
    for (const int ranks : {2, 3}) {
      for (const MatrixOwners owners : all_owners) {
        if (stage == 0 && owners != MatrixOwners::every) continue;
        run_grid({1, ranks}, [&](const GridPlace& place) {
          EnqueuedRank rank(true, OnNonfinite::skip, muon_params(), place.comm, Transport::copies);
          rank.shards = dealt_map(rank.layout, ranks, Dealt::stretches);
          use_muon(rank);
          rank.setup.stage = stage;
          rank.setup.matrix_owners = owners;
          rank.remake(2, true);
          check_last_step(rank);
        });
      }
    }
  }
}

TEST_CASE("Muon on a device: an overflow in enqueued steps of several ranks changes nothing") {
  if (!cuda::device::device_info().answers) return;
  for (const MatrixOwners owners : all_owners) {
    run_grid({1, 3}, [&](const GridPlace& place) {
      EnqueuedRank rank(true, OnNonfinite::skip, muon_params(), place.comm, Transport::copies);
      rank.shards = dealt_map(rank.layout, 3, Dealt::stretches);
      use_muon(rank);
      rank.setup.matrix_owners = owners;
      rank.setup.missing_grad = MissingGrad::skip;
      rank.remake(2, true);
      check_each_step(rank, rank.state(3));
      rank.optimizer.reset();
    });
  }
}

}  // namespace muon_step_test
