// Offloaded state and master in fewer bits (R25): the same bits as without offload, for every
// fraction, place and method, and for every partition of the blocks.

#include "tests/cuda/optimizer/production_world.hpp"
#include "tests/cuda/optimizer/state_formats.hpp"

namespace offload_formats_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

World formats_world(const StateFormats& state, bool fused) {
  World world = production_world({1, 2}, 3);
  world.make = production(fused);
  world.setup.stage = 2;
  world.setup.guards = true;
  world.setup.state_formats = state;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.param_rounding = ParamRounding::stochastic;
  world.setup.missing_grad = MissingGrad::skip;
  world.overflow_step = 1;
  return world;
}

Offload offload(double fraction, OffloadOrder order, OffloadPlace place, std::int64_t chunk_numel,
                bool overlap = true, bool grads = false) {
  return {fraction, order, place, chunk_numel, overlap, {}, grads};
}

WorldTruth truth_of(World world) {
  world.setup.offload = {};
  world.setup.stage = 0;
  world.grid.ranks = 1;
  return truth_of_one_rank(world);
}

std::string text_of(const Offload& offload) {
  return "offload " + std::to_string(offload.fraction) + " " + std::string(name(offload.order)) +
         " " + std::string(name(offload.place)) + " " + std::to_string(offload.chunk_numel);
}

constexpr OffloadPlace places[] = {OffloadPlace::host, OffloadPlace::file};
constexpr OffloadOrder orders[] = {OffloadOrder::flat, OffloadOrder::tensors};

}  // namespace

TEST_CASE(
    "offloaded formats: every fraction, chunk, order and place has the same bits as no offload") {
  for (const StateFormats& state : state_formats) {
    for (const bool fused : {false, true}) {
      World world = formats_world(state, fused);
      const WorldTruth truth = truth_of(world);
      for (const double fraction : {0.0, 0.1, 0.5, 0.9, 1.0}) {
        for (const std::int64_t chunk : {1, 777, 100'000'000}) {
          if (chunk == 1 && fraction > 0.1) continue;  // a chunk for every block, or every element
          for (const OffloadPlace place : places) {
            for (const OffloadOrder order : orders) {
              world.setup.offload =
                  offload(fraction, order, place, chunk, chunk != 777, order == OffloadOrder::flat);
              check_world(world, truth, text_of(world.setup.offload));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("offloaded formats: stages, worlds, and shards that split blocks") {
  for (const StateFormats& state : state_formats) {
    for (const bool fused : {false, true}) {
      World world = formats_world(state, fused);
      const WorldTruth truth = truth_of(world);
      for (const int stage : {0, 1, 2, 3}) {
        for (const int ranks : {1, 3, 5}) {
          world.setup.stage = stage;
          world.grid.ranks = ranks;
          for (const bool cut : {false, true}) {
            world.shards = cut ? dealt_map(Dealt::stretches) : World::contract_map(2048);
            world.setup.offload =
                offload(cut ? 1.0 : 0.6, ranks == 3 ? OffloadOrder::tensors : OffloadOrder::flat,
                        stage == 1 ? OffloadPlace::file : OffloadPlace::host, 300);
            check_world(world, truth, text_of(world.setup.offload));
          }
        }
      }
    }
  }
}

TEST_CASE("offloaded formats: amsgrad, momentum, and 8-bit parameters") {
  for (const bool fused : {false, true}) {
    for (const OffloadPlace place : places) {
      World world = formats_world(state_formats[1], fused);
      world.setup.hyper.amsgrad = true;
      world.setup.offload = offload(0.7, OffloadOrder::flat, place, 640);
      check_world(world, truth_of(world), "amsgrad");
      world.setup.hyper.amsgrad = false;
      world.setup.param_rounding = ParamRounding::nearest;
      world.setup.param_dtype = DType::e4m3;
      check_world(world, truth_of(world), "8-bit parameters");
      world.setup.hyper = {};
      world.setup.hyper.norm = NormForm::exact;
      world.setup.hyper.rule = UpdateRule::sgd;
      world.setup.hyper.momentum = 0.9;
      world.setup.param_dtype = DType::bf16;
      check_world(world, truth_of(world), "momentum");
    }
  }
}

TEST_CASE("offloaded formats: bf16 state of TP ranks, which has no blocks") {
  World world = production_world({1, 2, 2, 1}, 3);
  world.tensors = {{{"gain", {37}}, {"column", {60, 18}}, {"row", {10, 17}}, {"bias", {1030}}},
                   {-1, 1, 0, -1}};
  world.shards = ragged_map;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.param_rounding = ParamRounding::stochastic;
  world.setup.state_formats = {StateFormat::bf16, StateFormat::bf16, MasterFormat::bf16};
  const WorldTruth truth = truth_of(world);
  for (const OffloadPlace place : places) {
    world.setup.offload = offload(0.5, OffloadOrder::flat, place, 333);
    check_world(world, truth, text_of(world.setup.offload));
  }
}

TEST_CASE("offloaded formats: codes and scales are offloaded, and nothing is stored twice") {
  World world = formats_world(state_formats[1], true);
  world.setup.stage = 1;
  world.grid.ranks = 1;
  const auto use_of = [&](const Offload& elsewhere) {
    world.setup.offload = elsewhere;
    MemoryUse use;
    check_ranks(world, text_of(elsewhere), [&](WorldRank& rank) {
      rank.load();
      use = rank.optimizer->memory();
      return std::string();
    });
    return use;
  };
  const auto kept = [](const MemoryUse& use) {
    return use.now[static_cast<std::size_t>(MemoryClass::master)] +
           use.now[static_cast<std::size_t>(MemoryClass::state)];
  };
  // The master, a code of one byte and one of two, and two scales for 128 elements.
  const std::int64_t padded = odd_layout().padded_numel();
  const std::int64_t all = padded * (4 + 1 + 2) + padded / 128 * 8;
  const MemoryUse whole = use_of(offload(1, OffloadOrder::flat, OffloadPlace::host, 1000));
  CHECK(kept(whole) == 0);
  CHECK(whole.offloaded_host == all);
  const MemoryUse half = use_of(offload(0.5, OffloadOrder::flat, OffloadPlace::host, 1000));
  CHECK(half.offloaded_host > all / 3);
  CHECK(half.offloaded_host % (128 * (4 + 1 + 2) + 8) == 0);
  const MemoryUse file = use_of(offload(1, OffloadOrder::flat, OffloadPlace::file, 1000));
  CHECK(file.offloaded_host == 1024 * (4 + 1 + 2) + 8 * 8);  // chunks end with blocks
  // A quarter of a chunk in each of four files: a header, two blocks, and padding to a line of 64
  // bytes.
  CHECK(file.offloaded_file == padded / 1024 * 4 * (32 + 2 * (128 * (4 + 1 + 2) + 8) + 16));
}

}  // namespace offload_formats_test
