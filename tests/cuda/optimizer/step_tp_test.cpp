// Tensor parallelism: every TP rank has the bits, draws and norm of the undistributed model (R11, R12, R13, R15).

#include "tests/cuda/optimizer/production_world.hpp"

namespace step_tp_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// A TP rank has the same part of the split tensors for every TP size: `column` is split by
/// columns, `row` by rows.
World tp_world(const Grid& grid) {
  World world = production_world(grid, 3);
  world.tensors = {
      {{"gain", {37}}, {"column", {60, grid.tp * 9}}, {"row", {grid.tp * 5, 17}}, {"bias", {1030}}},
      {-1, 1, 0, -1}};
  world.shards = ragged_map;
  world.setup.loss_reduction = LossReduction::tokens;
  world.setup.hyper.norm = NormForm::exact;
  return world;
}

}  // namespace

TEST_CASE(
    "TP ranks: the undistributed bits, draws and norm, for every stage, form and gradient sum") {
  for (const Grid& grid :
       {Grid{1, 1, 2, 1}, Grid{1, 3, 2, 1}, Grid{2, 2, 2, 2}, Grid{1, 2, 4, 1}, Grid{1, 1, 8, 1}}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const MicroBatchOrder order : orders) {
        World world = tp_world(grid);
        world.make = production(order == MicroBatchOrder::strided);
        world.setup.stage = stage;
        world.setup.order = order;
        world.setup.param_rounding = ParamRounding::stochastic;
        world.setup.grad_dtype = stage == 2 ? DType::bf16 : DType::fp32;
        if (stage < 2) world.setup.hyper.norm = stage == 0 ? NormForm::one : NormForm::inf;
        world.setup.grad_sum = stage == 3 ? GradSum::binned : GradSum::tree;
        check_against_one_rank(world);
      }
    }
  }
}

TEST_CASE("an overflow on one TP rank is skipped on all") {
  for (const int stage : {0, 1, 2, 3}) {
    World world = tp_world({1, 2, 2, 1});
    world.overflow_step = 1;
    world.setup.stage = stage;
    world.setup.scaler.kind = LossScalerKind::dynamic;
    check_against_one_rank(world);
  }
}

}  // namespace step_tp_test
