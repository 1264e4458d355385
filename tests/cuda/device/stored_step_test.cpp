// State and master that are not fp32, on a device (R25): the bits of the step on the host, in
// phases, in two passes, enqueued, and replayed.

#include <doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/step/stored_element.cuh"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/optimizer/production_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"
#include "tests/cuda/optimizer/state_tensors.hpp"
#include "tests/cuda/optimizer/whole_state_source.hpp"

namespace stored_step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

World stored_world(const Grid& grid, const StateFormats& state) {
  World world = production_world(grid, 3);
  world.setup.state_formats = state;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.hyper.amsgrad = true;
  world.setup.param_rounding = ParamRounding::stochastic;
  world.on_device = true;
  return world;
}

/// A tensor over two pieces of a kernel, blocks that end at a tensor's last element, and a tensor
/// of one element.
std::vector<ParamSpec> long_params() {
  return {{"a", {70}}, {"none", {0}}, {"b", {67, 1024}}, {"c", {1}}};
}

}  // namespace

TEST_CASE("stored state: every code is widened to its value") {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float right = cuda::device::float_of_e4m3(static_cast<std::uint8_t>(code));
    const float wide = cuda::device::widened_e4m3(code);
    CHECK((std::isnan(right) ? std::isnan(wide)
                             : cuda::device::bits_of(right) == cuda::device::bits_of(wide)));
  }
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const float right = cuda::device::float_of_fp16(static_cast<std::uint16_t>(code));
    const float wide = cuda::device::widened_code(StateFormat::fp16, code);
    CHECK((std::isnan(right) ? std::isnan(wide)
                             : cuda::device::bits_of(right) == cuda::device::bits_of(wide)));
  }
}

TEST_CASE("state on a device: any partition equals one host rank, in phases and in two passes") {
  if (!cuda::device::device_info().answers) return;
  for (const StateFormats& state : state_formats) {
    for (const int stage : {0, 1, 2, 3}) {
      World world = stored_world({1, 3}, state);
      world.setup.stage = stage;
      world.setup.missing_grad = stage % 2 == 0 ? MissingGrad::skip : MissingGrad::zero;
      for (const bool fused : {false, true}) {
        world.make = production(fused);
        const WorldTruth truth = truth_of_one_rank(world);
        world.make = production(fused, Space::device);
        for (const auto& cut : {World::contract_map(2048), dealt_map(Dealt::stretches)}) {
          world.shards = cut;
          check_world(world, truth, "on a device");
        }
      }
    }
  }
}

TEST_CASE("nightly: state on a device: TP ranks with parts of blocks, in phases and fused") {
  if (!cuda::device::device_info().answers) return;
  for (const CutTensors& tensors : {split_blocks(), whole_blocks(), uneven_blocks()}) {
    for (const StateFormats& state : state_formats) {
      for (const bool fused : {false, true}) {
        World world = stored_world({1, 2, 2, 1}, state);
        world.tensors = tensors;
        world.setup.stage = fused ? 2 : 0;
        world.make = production(fused);
        const WorldTruth truth = truth_of_one_rank(world);
        world.make = production(fused, Space::device);
        for (const auto& cut : {World::contract_map(2048),
                                std::function<ShardMap(const FlatLayout&, int)>(ragged_map)}) {
          world.shards = cut;
          check_world(world, truth, "on a device");
        }
      }
    }
  }
}

TEST_CASE("state on a device: enqueued and replayed steps, some skipped, have the host's bits") {
  if (!cuda::device::device_info().answers) return;
  for (const StateFormats& state : state_formats) {
    for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::sgd, UpdateRule::lion}) {
      for (const MissingGrad missing : {MissingGrad::zero, MissingGrad::skip}) {
        CAPTURE(name(rule));
        CAPTURE(name(missing));
        EnqueuedRank rank(true, OnNonfinite::skip, long_params());
        rank.setup.state_formats = state;
        rank.setup.missing_grad = missing;
        rank.setup.hyper.rule = rule;
        rank.setup.hyper.momentum = rule == UpdateRule::sgd ? 0.5 : 0.0;
        rank.remake(2, true);
        FullState full = rank.state();
        full.slots[StateSlot::momentum_buffer] = rank.zeros;
        check_each_step(rank, full);
      }
    }
  }
}

TEST_CASE("state on a device: a source is read in several parts where a piece is longer") {
  if (!cuda::device::device_info().answers) return;
  EnqueuedRank rank(false, OnNonfinite::skip, long_params());
  rank.setup.state_formats = {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32};
  rank.remake(1, false);
  FullState state = rank.state();
  const std::vector<float> master = random_values(rank.layout.padded_numel(), 3),
                           moments = random_values(rank.layout.padded_numel(), 4);
  state.master = master;
  state.slots[StateSlot::exp_avg] = moments;
  rank.on_host->load_state(state);
  rank.optimizer->load_state_from(WholeStateSource(state));
  rank.check_same_state();
}

TEST_CASE("state on a device: 8-bit parameters, and enqueued steps of ranks with device copies") {
  if (!cuda::device::device_info().answers) return;
  run_grid({1, 2}, [&](const GridPlace& place) {
    EnqueuedRank rank(true, OnNonfinite::skip, long_params(), place.comm, Transport::copies);
    rank.shards = dealt_map(rank.layout, 2, Dealt::stretches);
    rank.setup.hyper.norm = NormForm::exact;
    rank.setup.state_formats = {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32};
    rank.setup.param_dtype = DType::e5m2;
    rank.setup.scaling = scaling_of(ScaleRecipe::blockwise);
    rank.setup.stage = 2;
    rank.remake(2, true);
    check_last_step(rank);
  });
}

}  // namespace stored_step_test
