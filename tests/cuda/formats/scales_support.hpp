#pragma once
// Runs with parameters in 8 bits: every recipe, and tensors whose blocks end at ends of rows, or
// not.

#include <vector>

#include "tests/cuda/optimizer/production_world.hpp"

namespace zeroproof::tests {

/// The recipes with their options.
inline std::vector<ParamScaling> every_scaling() {
  std::vector<ParamScaling> all;
  for (const ScaleRecipe recipe :
       {ScaleRecipe::current, ScaleRecipe::delayed, ScaleRecipe::blockwise, ScaleRecipe::mxfp8}) {
    all.push_back(scaling_of(recipe));
    all.back().history = 3;
  }
  all[0].epsilon = 0.5F;
  all[1].columnwise = all[2].columnwise = true;  // the same codes in another order
  ParamScaling rows = scaling_of(ScaleRecipe::blockwise);
  rows.blocks = ScaleBlocks::row_128;
  rows.power_of_two = false;
  rows.value = QuantizedValue::through_bf16;
  rows.columnwise = true;  // with its own scales
  ParamScaling recent = scaling_of(ScaleRecipe::delayed);
  recent.history = 1;
  recent.margin = 2;
  recent.choice = AmaxChoice::most_recent;
  recent.empty = EmptyAmax::roll;
  ParamScaling dequantised = scaling_of(ScaleRecipe::mxfp8);
  dequantised.initial_master = InitialMaster::dequantised;
  dequantised.columnwise = true;
  all.insert(all.end(), {rows, recent, dequantised});
  return all;
}

/// Rows of several blocks, columns that end in one, a tensor of one block, scalars.
inline CutTensors block_tensors() {
  return {{{"a", {7, 11}},
           {"wide", {3, 300}},
           {"empty", {0}},
           {"tall", {260, 5}},
           {"square", {130, 129}},
           {"scalar", {}},
           {"row", {1030}}}};
}

inline World scales_world(const Grid& grid, const ParamScaling& scaling, DType dtype) {
  World world = production_world(grid, 3);
  world.tensors = block_tensors();
  world.setup.param_dtype = dtype;
  world.setup.scaling = scaling;
  world.setup.hyper.norm = NormForm::exact;
  world.steps = 3;
  return world;
}

}  // namespace zeroproof::tests
