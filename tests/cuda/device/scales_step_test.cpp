// 8-bit parameters on a device (R24): the bits of the step on the host, in phases, in two passes,
// enqueued, and replayed.

#include <doctest.h>

#include <limits>
#include <memory>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/step/step_memory.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/formats/scales_support.hpp"

namespace scales_step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

std::vector<ParamSpec> block_params() { return block_tensors().params; }

}  // namespace

TEST_CASE("scales on a device: any partition equals one host rank, in phases and in two passes") {
  if (!cuda::device::device_info().answers) return;
  for (const ParamScaling& scaling : every_scaling()) {
    for (const int stage : {0, 1, 2, 3}) {
      World world = scales_world({1, 2}, scaling, stage % 2 == 0 ? DType::e4m3 : DType::e5m2);
      world.steps = 2;
      world.on_device = true;
      world.setup.stage = stage;
      world.setup.persistent_numel = 1400;
      if (stage > 1) world.shards = ragged_map;
      if (stage == 2) world.setup.missing_grad = MissingGrad::skip;
      const bool fused = stage == 1 || stage == 2;
      world.make = production(fused);
      const WorldTruth truth = truth_of_one_rank(world);
      world.make = production(fused, Space::device);
      check_world(world, truth, "on a device");
    }
  }
}

TEST_CASE("scales on a device: blocks that are split over TP ranks") {
  if (!cuda::device::device_info().answers) return;
  for (const ParamScaling& scaling : every_scaling()) {
    World world = scales_world({1, 2, 2, 1}, scaling, DType::e4m3);
    world.tensors.params = {
        {"gain", {20}}, {"row", {10, 300}}, {"column", {9, 64}}, {"last", {40, 33}}};
    world.tensors.dims = {-1, 0, 1, 1};
    world.steps = 2;
    world.on_device = true;
    world.setup.stage = 1;
    // A transposed copy covers the part that is whole on a rank, which otherwise only a single rank
    // has.
    world.setup.scaling.columnwise = has_own_columns(scaling);
    world.make = production(true);
    const WorldTruth truth = truth_of_one_rank(world);
    world.make = production(true, Space::device);
    check_world(world, truth, "on a device");
  }
}

TEST_CASE("scales on a device: rows longer than the longest piece, which end inside of pieces") {
  if (!cuda::device::device_info().answers) return;
  for (const ParamScaling& scaling : every_scaling()) {
    if (scaling.recipe != ScaleRecipe::blockwise) continue;
    World world = scales_world({1, 1}, scaling, DType::e4m3);
    world.tensors.params = {{"wide", {3, cuda::device::StepPiece::most_numel + 4099}}};
    world.steps = 1;
    world.on_device = true;
    world.make = production(true);
    const WorldTruth truth = truth_of_one_rank(world);
    world.make = production(true, Space::device);
    check_world(world, truth, "on a device");
  }
}

TEST_CASE("scales on a device: enqueued and replayed steps, some skipped, have the host's bits") {
  if (!cuda::device::device_info().answers) return;
  for (const ParamScaling& scaling : every_scaling()) {
    for (const bool graphs : {false, true}) {
      for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
        CAPTURE(name(scaling.recipe));
        CAPTURE(graphs);
        CAPTURE(name(missing));
        EnqueuedRank rank(graphs, OnNonfinite::skip, block_params());
        rank.setup.param_dtype = DType::e4m3;
        rank.setup.scaling = scaling;
        rank.setup.missing_grad = missing;
        rank.remake(2, graphs);
        check_each_step(rank, rank.state());
      }
    }
  }
}

TEST_CASE("scales on a device: a captured step contains no fill and no copy") {
  if (!cuda::device::device_info().answers) return;
  for (const ParamScaling& scaling : every_scaling()) {
    for (const bool graphs : {false, true}) {
      CAPTURE(name(scaling.recipe));
      CAPTURE(graphs);
      EnqueuedRank rank(graphs, OnNonfinite::skip, block_params());
      rank.setup.param_dtype = DType::e4m3;
      rank.setup.scaling = scaling;
      rank.remake(2, graphs);
      DeviceGrads grads(rank, 2);
      rank.optimizer->load_state(rank.state());
      for (int step = 1; step <= 3; ++step) {  // with graphs, the second one is captured
        rank.optimizer->enqueue_step(grads);
        // The status, and clearing the results, both outside of the graph.
        if (step > 1) CHECK(rank.optimizer->calls().copies == 2);
      }
      rank.optimizer->wait();
    }
  }
}

TEST_CASE("scales on a device: enqueued steps of ranks that copy from each other") {
  if (!cuda::device::device_info().answers) return;
  for (const ParamScaling& scaling : every_scaling()) {
    run_grid({1, 2}, [&](const GridPlace& place) {
      EnqueuedRank rank(true, OnNonfinite::skip, block_params(), place.comm, Transport::copies);
      rank.setup.param_dtype = DType::e5m2;
      rank.setup.scaling = scaling;
      rank.setup.stage = 2;
      rank.remake(2, true);
      check_last_step(rank);
    });
  }
}

}  // namespace scales_step_test
