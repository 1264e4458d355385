// 8-bit parameters (R24): every recipe over ranks with any block boundaries, against the
// undistributed optimizer.

#include <array>

#include "tests/reference/alone.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Blocks of 128 by 128 and rows of 128 and 32 that end inside of tensors, one row, no row, one
/// element.
CutTensors blocky_tensors(bool cut) {
  CutTensors tensors{{{"v", {37}},
                      {"nothing", {0, 5}},
                      {"columns", {140, 24}},
                      {"rows", {16, 270}},
                      {"one", {}},
                      {"w", {3, 1100}}}};
  if (cut) tensors.dims = {-1, -1, 1, 0, -1, -1};
  return tensors;
}

struct Named {
  std::string name;
  ParamScaling scaling;
};

/// Every recipe, and every option of each.
std::vector<Named> all_scalings() {
  std::vector<Named> all;
  const auto add = [&](const std::string& name, ScaleRecipe recipe) -> ParamScaling& {
    all.push_back({name, scaling_of(recipe)});
    return all.back().scaling;
  };
  add("current", ScaleRecipe::current).columnwise = true;
  ParamScaling& epsilon = add("current, epsilon, power of two", ScaleRecipe::current);
  epsilon.epsilon = 8;
  epsilon.power_of_two = true;
  epsilon.initial_master = InitialMaster::dequantised;
  ParamScaling& delayed = add("delayed", ScaleRecipe::delayed);
  delayed.history = 3;
  delayed.columnwise = true;
  ParamScaling& newest = add("delayed, newest, margin, through bf16", ScaleRecipe::delayed);
  newest.history = 2;
  newest.choice = AmaxChoice::most_recent;
  newest.empty = EmptyAmax::roll;
  newest.margin = 3;
  newest.value = QuantizedValue::through_bf16;
  newest.initial_master = InitialMaster::dequantised;
  add("delayed, one slot", ScaleRecipe::delayed).history = 1;
  add("blockwise", ScaleRecipe::blockwise).columnwise = true;
  ParamScaling& rows = add("blockwise, rows", ScaleRecipe::blockwise);
  rows.blocks = ScaleBlocks::row_128;
  rows.power_of_two = false;
  rows.initial_master = InitialMaster::dequantised;
  rows.columnwise = true;
  add("mxfp8", ScaleRecipe::mxfp8).columnwise = true;
  ParamScaling& halves = add("mxfp8 through bf16", ScaleRecipe::mxfp8);
  halves.value = QuantizedValue::through_bf16;
  halves.initial_master = InitialMaster::dequantised;
  halves.columnwise = true;
  return all;
}

World scaled_world(int stage, const Grid& grid, std::size_t turn, const ParamScaling& scaling) {
  World world = reference_world(stage, grid, std::array<std::int64_t, 4>{1, 3, 5, 2}[turn % 4]);
  world.tensors = blocky_tensors(grid.tp > 1);
  world.layered = turn % 2 == 1;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.param_dtype = turn % 3 == 1 ? DType::e5m2 : DType::e4m3;
  world.setup.scaling = scaling;
  world.setup.missing_grad = turn % 4 >= 2 ? MissingGrad::skip : MissingGrad::zero;
  world.setup.persistent_numel = turn % 2 == 0 ? 0 : 3400;
  // The transposed copy of a split tensor is not part of the undistributed one.
  if (grid.tp > 1) world.setup.scaling.columnwise = has_own_columns(scaling);
  return world;
}

void check_scalings(const std::vector<Grid>& grids) {
  std::size_t turn = 0;
  for (const auto& [name, scaling] : all_scalings()) {
    for (const Grid& grid : grids) {
      for (int stage = 0; stage <= 3; ++stage) {
        World world = scaled_world(stage, grid, turn, scaling);
        const std::array<std::function<ShardMap(const FlatLayout&, int)>, 4> maps = {
            World::contract_map(1024), ragged_map, dealt_map(Dealt::stretches),
            dealt_map(Dealt::last_rank)};
        if (grid.tp == 1) world.shards = maps[turn % 4];
        check_against_dense(world, name);
        ++turn;
      }
      ++turn;
    }
  }
}

}  // namespace

TEST_CASE("scaled parameters: two and five ranks have the bits of the undistributed optimizer") {
  check_scalings({{1, 2}, {1, 5}});
}

TEST_CASE("scaled parameters: a grid with instances has the bits of the undistributed one") {
  check_scalings({{2, 2, 2, 2}});
}

TEST_CASE("nightly: scaled parameters: any partition over ranks, grids and instances") {
  check_scalings({{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}});
  check_scalings({{2, 2, 1, 1}, {1, 2, 2, 1}, {1, 2, 4, 2}, {2, 2, 2, 2}});
}
