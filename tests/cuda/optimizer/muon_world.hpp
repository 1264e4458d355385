#pragma once
// The rule muon in worlds of threads: odd matrices in parts, and tensors that are none.

#include "tests/support/production.hpp"
#include "tests/support/shard_maps.hpp"

namespace zeroproof::tests {

/// Six matrices, one without elements; `embed` is left to adamw.
inline CutTensors muon_tensors() {
  return {{{"a", {7, 11}},
           {"bias", {3}},
           {"qkv", {48, 20}},
           {"empty", {0, 4}},
           {"gate", {18, 24}},
           {"norm", {1025}},
           {"embed", {9, 16}},
           {"tall", {130, 9}},
           {"scalar", {}},
           {"row", {1, 37}}}};
}

/// qkv in rows of three kinds, gate in columns of two.
inline std::vector<MatrixSplitRule> muon_splits() {
  return {{"qkv", {"qkv"}, {6, 2, 4}, {}}, {"gate", {"gate"}, {}, {5, 3}}};
}

inline World muon_world(const Grid& grid, int stage, bool fused) {
  World world{muon_tensors(), production(fused), grid};
  world.steps = 2;
  world.overflow_step = 0;
  world.applied_steps = 2;
  world.shards = ragged_map;
  world.setup.stage = stage;
  world.setup.micro_batches = 3;
  world.setup.guards = true;
  world.setup.hyper.rule = UpdateRule::muon;
  world.setup.hyper.lr = 0.05;
  world.setup.hyper.weight_decay = 0.1;
  world.setup.hyper.momentum = 0.75;
  world.setup.hyper.nesterov = true;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.hyper.max_norm = 0.125;
  world.setup.hyper.muon.newton_schulz.coefficients = NewtonSchulzSet::quintic;
  world.setup.hyper.muon.newton_schulz.steps = 2;
  world.setup.matrix_tensors =
      make_matrix_tensors({"embed"}, muon_splits(), FlatLayout(world.tensors.params));
  return world;
}

/// Matrices split over TP ranks by rows and by columns, some of which have no row of `few`.
inline World muon_tp_world(const Grid& grid, int stage, bool fused) {
  World world = muon_world(grid, stage, fused);
  world.tensors = {{{"gain", {37}},
                    {"column", {30, 24}},
                    {"row", {24, 17}},
                    {"whole", {11, 8}},
                    {"gate", {10, 32}},
                    {"few", {3, 5}},
                    {"bias", {1030}}},
                   {-1, 1, 0, -1, 1, 0, -1}};
  world.setup.matrix_tensors =
      make_matrix_tensors({}, {{"row", {"row"}, {5, 1}, {}}, {"gate", {"gate"}, {}, {3, 4, 1}}},
                          FlatLayout(world.tensors.params));
  return world;
}

}  // namespace zeroproof::tests
