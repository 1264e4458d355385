// The bits of a step do not depend on the world, the stage, the assignment of micro-batches or the shard map (R11,
// R13).

#include "tests/cuda/optimizer/production_world.hpp"

#include <bit>

namespace step_worlds_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// The canonical tree over leaves [first, last) of one element, written by its definition: split at the largest aligned
/// block.
float tree(std::int64_t first, std::int64_t last, std::int64_t index) {
  if (last - first == 1) {
    const std::vector<float>& leaf = leaf_values(odd_layout().padded_numel(), 1, first);
    return index % 11 == 3 ? -0.0F : leaf[index];
  }
  std::int64_t half = 1;
  while (half * 2 < last - first) half *= 2;
  return tree(first, first + half, index) + tree(first + half, last, index);
}

}  // namespace

TEST_CASE("production step: on one rank G is the canonical tree, element by element") {
  for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 11}) {
    CAPTURE(m);
    const WorldTruth truth = truth_of_one_rank(production_world({}, m));
    const TensorView sum = truth[1].at(BufferId::grad_sum);
    int wrong = 0;
    for (const TensorSlot& slot : odd_layout().tensors()) {
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i)
        wrong += element_bits(sum, i) != std::bit_cast<std::uint32_t>(tree(0, m, i)) ? 1 : 0;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE(
    "production step: by default micro-batches are contiguous in stages 0 and 1, strided in 2 and "
    "3") {
  for (const int stage : {0, 1, 2, 3}) {
    World world = production_world({1, 2}, 5);
    world.setup.stage = stage;
    std::vector<std::vector<std::int64_t>> asked(2);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      rank.load();
      rank.optimizer->step(rank.grads);
      asked[place.number] = rank.grads.asked;
    });
    using Numbers = std::vector<std::int64_t>;
    CHECK(asked[0] == (stage < 2 ? Numbers{0, 1} : Numbers{0, 2, 4}));
    CHECK(asked[1] == (stage < 2 ? Numbers{2, 3, 4} : Numbers{1, 3}));
  }
}

TEST_CASE("production step: worlds, stages, assignments and shard maps have the bits of one rank") {
  for (const std::int64_t m : {1, 3, 7}) {
    for (const NormForm norm : {NormForm::chunk1024, NormForm::exact}) {
      World world = production_world({}, m);
      world.make = production(m == 7);
      world.setup.hyper.norm = norm;
      world.setup.grad_dtype = m == 3 ? DType::bf16 : DType::fp32;
      if (norm == NormForm::exact) world.shards = ragged_map;
      const WorldTruth truth = truth_of_one_rank(world);
      for (const int stage : {0, 1, 2, 3}) {
        for (const int ranks : {1, 2, 3, 5, 8}) {
          for (const MicroBatchOrder order : orders) {
            world.setup.stage = stage;
            world.setup.order = order;
            world.grid.ranks = ranks;
            check_world(world, truth);
          }
        }
      }
    }
  }
}

TEST_CASE(
    "production step: idle tensors, tokens, fp16 gradients and threads have the bits of one rank") {
  for (const int stage : {1, 3}) {
    for (const MicroBatchOrder order : orders) {
      World world = production_world({1, 3}, 5);
      world.shards = ragged_map;
      world.setup.stage = stage;
      world.setup.order = order;
      world.setup.grad_dtype = DType::fp16;
      world.setup.param_dtype = DType::fp16;
      world.setup.hyper.norm = NormForm::one;
      world.setup.loss_reduction = LossReduction::tokens;
      world.setup.missing_grad = MissingGrad::skip;
      world.setup.exec.num_threads = 2;
      check_against_one_rank(world);
    }
  }
}

TEST_CASE(
    "production step: an infinite gradient on one rank skips all, and memory returns to rest") {
  for (const int stage : {0, 1, 2, 3}) {
    World world = production_world({1, 5}, 3);
    world.shards = ragged_map;
    world.overflow_step = 1;
    world.setup.stage = stage;
    world.setup.scaler.kind = LossScalerKind::dynamic;
    world.setup.hyper.norm = NormForm::inf;
    const WorldTruth truth = truth_of_one_rank(world);
    CHECK(element_bits(truth[1].at(BufferId::found_inf), 0) == 1);
    CHECK(element_bits(truth[2].at(BufferId::found_inf), 0) == 0);
    check_world(world, truth);
  }
}

TEST_CASE("production step: a layout without elements") {
  for (const int stage : {0, 1, 2, 3}) {
    World world = production_world({1, 2}, 1);
    world.tensors = {{ParamSpec{"empty", {0, 3}}}};
    world.setup.stage = stage;
    check_against_one_rank(world);
  }
}

}  // namespace step_worlds_test
