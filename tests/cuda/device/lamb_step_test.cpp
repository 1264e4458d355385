// Steps of LAMB on a device (R6): ratios and masters of plain loops on one rank; the bits of the
// host on every partition, in phases, in two passes, enqueued, replayed and offloaded.

#include <doctest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "cuda/device/runtime/runtime.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/device_place.hpp"
#include "tests/cuda/lamb_loops.hpp"
#include "tests/cuda/optimizer/production_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"
#include "tests/cuda/optimizer/state_tensors.hpp"

namespace lamb_step_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using device_test::LambOperands;

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

/// Values of one tensor of one rank.
template <class T = float>
std::vector<T> values(const StepTruth& truth, BufferId id, std::int64_t begin, std::int64_t numel) {
  std::vector<T> of_tensor(numel);
  if (numel > 0) {
    std::memcpy(of_tensor.data(), static_cast<const T*>(truth.at(id).data) + begin,
                of_tensor.size() * sizeof(T));
  }
  return of_tensor;
}

std::ptrdiff_t num_different(const std::vector<float>& a, const std::vector<float>& b) {
  std::ptrdiff_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += device_test::same(a[i], b[i]) ? 0 : 1;
  return count;
}

/// Every step from the state before it, its G, its scalars and its clip coefficient.
void check_by_loops(const World& world, const WorldTruth& truth) {
  const FlatLayout layout(world.tensors.params);
  const OptimizerSetup& setup = world.setup;
  const bool per_tensor = setup.missing_grad == MissingGrad::skip;
  for (std::size_t step = 1; step < truth.size(); ++step) {
    const StepTruth &before = truth[step - 1], &after = truth[step];
    for (std::size_t t = 0; t < layout.tensors().size(); ++t) {
      CAPTURE(step);
      CAPTURE(t);
      const TensorSlot& slot = layout.tensors()[t];
      const auto i = static_cast<std::int64_t>(t);
      const auto of = [&](const StepTruth& from, BufferId id) {
        return values(from, id, slot.begin, slot.numel);
      };
      const auto one = [&](const StepTruth& from, BufferId id, auto zero) {
        return values<decltype(zero)>(from, id, i, 1)[0];
      };
      std::vector<float> grad = of(after, BufferId::grad_sum),
                         master = of(before, BufferId::master), m = of(before, BufferId::exp_avg),
                         v = of(before, BufferId::exp_avg_sq);
      const bool updated =
          after.applied && (!per_tensor || one(after, BufferId::tensor_steps, 0UL) !=
                                               one(before, BufferId::tensor_steps, 0UL));
      float ratio = after.applied ? 1.0F : one(before, BufferId::trust_ratio, 0.0F);
      if (updated) {
        const auto scalars = values<StepScalars>(after, BufferId::step_scalars,
                                                 per_tensor ? i : setup.groups.of(i), 1)[0];
        const float clip_coef = values(after, BufferId::clip_coef, 0, 1)[0];
        for (float& g : grad) {
          g = g * scalars.inv_scale;
          g = g * clip_coef;
        }
        const LambOperands operands{grad, master, m, v};
        ratio = device_test::lamb_ratio_of(scalars, setup.hyper.maximize, operands);
        device_test::lamb_by_loop(scalars, setup.hyper.maximize, ratio, operands);
        if (slot.numel > 1 && setup.on_nonfinite == OnNonfinite::skip) CHECK(ratio != 1);
      }
      CHECK(device_test::same(one(after, BufferId::trust_ratio, 0.0F), ratio));
      CHECK(num_different(of(after, BufferId::master), master) == 0);
      CHECK(num_different(of(after, BufferId::exp_avg), m) == 0);
      CHECK(num_different(of(after, BufferId::exp_avg_sq), v) == 0);
    }
  }
}

EnqueuedRank::Params long_params() {
  return {{"a", {70}}, {"none", {0}}, {"b", {67, 1024}}, {"c", {1}}};
}

}  // namespace

TEST_CASE("LAMB on a device: one rank has the ratios and the state of plain loops") {
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
        check_by_loops(world, truth_of_one_rank(world));
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
