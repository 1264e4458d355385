// State and master that are not fp32 (R25), partly offloaded: the bits of the host without
// offloading, in phases, in two passes, enqueued, and replayed.

#include <doctest.h>

#include <string>
#include <vector>

#include "cuda/device/runtime/device.hpp"
#include "tests/cuda/device/enqueued_support.hpp"
#include "tests/cuda/optimizer/production_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"

namespace stored_elsewhere_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

Offload offload(double fraction, OffloadOrder order, OffloadPlace place, bool grads = false) {
  return {fraction, order, place, 700, !grads, {}, grads};
}

constexpr OffloadPlace places[] = {OffloadPlace::host, OffloadPlace::file};
constexpr OffloadOrder orders[] = {OffloadOrder::flat, OffloadOrder::tensors};

}  // namespace

TEST_CASE("nightly: stored state elsewhere: any partition and fraction equals one host rank") {
  if (!cuda::device::device_info().answers) return;
  for (const StateFormats& state : state_formats) {
    for (const bool fused : {false, true}) {
      World world = production_world({1, 3}, 3);
      world.setup.state_formats = state;
      world.setup.hyper.norm = NormForm::exact;
      world.setup.hyper.amsgrad = true;
      world.setup.param_rounding = ParamRounding::stochastic;
      world.setup.missing_grad = fused ? MissingGrad::zero : MissingGrad::skip;
      world.make = production(fused);
      const WorldTruth truth = truth_of_one_rank(world);
      world.make = production(fused, Space::device);
      world.on_device = true;
      for (const auto& cut : {World::contract_map(2048), dealt_map(Dealt::stretches)}) {
        world.shards = cut;
        for (const double fraction : {0.0, 0.45, 1.0}) {
          for (const OffloadOrder order : orders) {
            world.setup.stage = order == OffloadOrder::flat ? 2 : 1;
            const OffloadPlace place = places[fraction > 0.5 ? 1 : 0];
            world.setup.offload = offload(fraction, order, place, fused);
            check_world(world, truth, "elsewhere, " + std::to_string(fraction));
          }
        }
      }
    }
  }
}

TEST_CASE(
    "stored state elsewhere: enqueued and replayed steps, some skipped, have the host's bits") {
  if (!cuda::device::device_info().answers) return;
  for (const StateFormats& state : state_formats) {
    for (const bool graphs : {false, true}) {
      for (const double fraction : {0.3, 1.0}) {
        CAPTURE(graphs);
        CAPTURE(fraction);
        EnqueuedRank rank(graphs);
        rank.setup.state_formats = state;
        rank.setup.offload = offload(fraction, OffloadOrder::flat, places[graphs ? 1 : 0]);
        rank.setup.missing_grad = graphs ? MissingGrad::skip : MissingGrad::zero;
        rank.remake(2, graphs);
        check_offloaded_steps(rank, graphs);
      }
    }
  }
}

TEST_CASE(
    "stored state elsewhere: enqueued steps of ranks with shared blocks and 8-bit parameters") {
  if (!cuda::device::device_info().answers) return;
  run_grid({1, 2}, [&](const GridPlace& place) {
    EnqueuedRank rank(true, OnNonfinite::skip, EnqueuedRank::usual(), place.comm,
                      Transport::copies);
    rank.shards = dealt_map(rank.layout, 2, Dealt::stretches);
    rank.setup.hyper.norm = NormForm::exact;
    rank.setup.state_formats = {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32};
    rank.setup.param_dtype = DType::e5m2;
    rank.setup.scaling = scaling_of(ScaleRecipe::blockwise);
    rank.setup.stage = 2;
    rank.setup.offload = offload(0.6, OffloadOrder::flat, OffloadPlace::host);
    rank.remake(2, true);
    check_last_step(rank);
  });
}

}  // namespace stored_elsewhere_test
