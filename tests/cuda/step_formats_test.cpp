// State and master that are not kept in fp32 (R25): the bits of one rank, however blocks are cut, in phases and fused.

#include "tests/cuda/production_world.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr StateFormats formats[] = {
    {StateFormat::bf16, StateFormat::fp32, MasterFormat::fp32},
    {StateFormat::e4m3, StateFormat::fp16, MasterFormat::fp32},
    {StateFormat::fp16, StateFormat::e4m3, MasterFormat::bf16},
    {StateFormat::fp32, StateFormat::bf16, MasterFormat::bf16},
};

}  // namespace

TEST_CASE("formats of state: worlds, stages, cuts, phases and fused: the bits of one rank") {
  for (const StateFormats& state : formats) {
    World world = production_world({}, 3);
    world.setup.state_formats = state;
    world.setup.hyper.norm = NormForm::exact;
    world.setup.param_rounding = ParamRounding::stochastic;
    world.setup.missing_grad = MissingGrad::skip;
    world.overflow_step = 1;
    for (const bool fused : {false, true}) {
      world.make = production(fused);
      world.setup.stage = 0;
      world.grid.ranks = 1;
      const WorldTruth truth = truth_of_one_rank(world);
      for (const int stage : {0, 1, 2, 3}) {
        for (const int ranks : {1, 2, 3, 5}) {
          world.setup.stage = stage;
          world.grid.ranks = ranks;
          for (const bool cut : {false, true}) {
            world.shards = cut ? dealt_map(Dealt::stretches) : World::contract_map(2048);
            check_world(world, truth);
          }
        }
      }
    }
  }
}

TEST_CASE("bf16 state on TP ranks; scales, offload and other spaces are refused in a sentence") {
  World world = production_world({1, 2, 2, 1}, 3);
  world.tensors = {{{"gain", {37}}, {"column", {60, 18}}, {"row", {10, 17}}, {"bias", {1030}}},
                   {-1, 1, 0, -1}};
  world.shards = ragged_map;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.param_rounding = ParamRounding::stochastic;
  world.setup.state_formats = {StateFormat::bf16, StateFormat::bf16, MasterFormat::bf16};
  check_against_one_rank(world);
  world.setup.state_formats.exp_avg = StateFormat::e4m3;
  CHECK_THROWS_WITH_AS(check_ranks(world, "",
                                   [](WorldRank& rank) {
                                     rank.load();
                                     return std::string();
                                   }),
                       doctest::Contains("on 2 TP ranks"), Error);
  World offloaded = production_world({}, 3);
  offloaded.setup.state_formats.exp_avg = StateFormat::bf16;
  offloaded.setup.offload.fraction = 0.5;
  CHECK_THROWS_WITH_AS(truth_of_one_rank(offloaded), doctest::Contains("to be offloaded"), Error);
}
