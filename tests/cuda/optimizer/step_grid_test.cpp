// Several optimizer instances and context parallelism: the bits of one rank (R11). Scalars that
// differ on a rank (R5).

#include "common/base/error.hpp"
#include "tests/cuda/optimizer/production_world.hpp"

namespace step_grid_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

}  // namespace

TEST_CASE("production step: instances and CP ranks have the bits of one rank") {
  for (const GradSum sum : {GradSum::tree, GradSum::binned}) {
    for (const Grid& grid :
         {Grid{2, 1, 1, 1}, Grid{2, 3, 1, 1}, Grid{3, 2, 1, 1}, Grid{1, 4, 1, 2}, Grid{2, 2, 1, 2},
          Grid{2, 2, 1, 4}, Grid{1, 8, 1, 8}, Grid{1, 6, 1, 2}, Grid{2, 1, 1, 2}}) {
      if (sum == GradSum::binned && grid.ranks % grid.cp != 0) continue;  // an error
      for (const int stage : {0, 1, 2, 3}) {
        for (const MicroBatchOrder order : orders) {
          World world = production_world(grid, stage == 2 ? 1 : 7);
          world.steps = 1;
          world.shards = ragged_map;
          world.setup.stage = stage;
          world.setup.grad_sum = sum;
          world.setup.order = order;
          world.setup.grad_dtype = stage == 3 ? DType::bf16 : DType::fp32;
          world.setup.loss_reduction = LossReduction::tokens;
          world.setup.hyper.norm = NormForm::exact;
          check_against_one_rank(world);
        }
      }
    }
  }
}

TEST_CASE("scalars that differ on one rank are the same error on every rank, naming it") {
  World world = production_world({2, 2, 2}, 1);
  world.setup.stage = 1;
  world.setup.hyper.norm = NormForm::exact;
  world.setup.placement.resize(world.tensors.params.size());
  world.setup.missing_grad = MissingGrad::skip;
  for (int culprit = 0; culprit < 8; ++culprit) {
    CAPTURE(culprit);
    std::vector<std::string> texts(8);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      rank.load();
      for (const ExposedBuffer& buffer : rank.optimizer->exposed(Phase::update)) {
        if (place.number == culprit && buffer.id == BufferId::tensor_steps)
          *static_cast<std::uint64_t*>(buffer.view.data) += 1;
      }
      std::string& text = texts[place.number];
      try {
        rank.optimizer->run_phase(Phase::prepare, rank.grads);
      } catch (const Error& error) {
        text = error.code() == ErrorCode::comm ? error.what() : "another error";
      }
    });
    const std::string want = culprit == 0 ? "ranks 1, 2, 3, 4, 5, 6 and 7 differ"
                                          : "rank " + std::to_string(culprit) + " differ";
    for (const std::string& text : texts) {
      CHECK(text == texts.front());
      CHECK(text.find(want) != std::string::npos);
    }
  }
}

}  // namespace step_grid_test
