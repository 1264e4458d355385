// Context and tensor parallelism, and several instances: every rank equals the undistributed
// optimizer.

#include <array>

#include "tests/reference/alone.hpp"

namespace grid_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// One vector that every TP rank has, a matrix split by columns, one split by rows, a single
/// number, a larger vector.
CutTensors cut_tensors() {
  return {{{"v", {37}}, {"columns", {50, 24}}, {"rows", {16, 70}}, {"one", {}}, {"w", {1100}}},
          {-1, 1, 0, -1, -1}};
}

/// Every stage and order; the other choices vary in turn.
void check_grids(const std::vector<Grid>& grids, GradSum sum = GradSum::tree) {
  std::size_t turn = 0;
  for (const Grid& grid : grids) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
        World world =
            reference_world(stage, grid, std::array<std::int64_t, 4>{1, 3, 5, 2}[turn % 4]);
        world.tensors = cut_tensors();
        world.layered = turn % 3 == 1;
        OptimizerSetup& setup = world.setup;
        setup.order = order;
        setup.persistent_numel = 37;
        setup.grad_dtype = turn % 5 == 2 ? DType::bf16 : DType::fp32;
        constexpr std::array<NormForm, 4> forms = {NormForm::exact, NormForm::inf, NormForm::one,
                                                   NormForm::chunk1024};
        setup.hyper.norm = forms[turn % (grid.tp == 1 ? 4 : 3)];
        setup.missing_grad = turn % 4 == 1 ? MissingGrad::skip : MissingGrad::zero;
        setup.param_rounding = turn % 7 < 5 ? ParamRounding::stochastic : ParamRounding::nearest;
        setup.loss_reduction = turn % 3 == 0 ? LossReduction::tokens : LossReduction::mean;
        setup.grad_sum = turn % 11 == 4 && grid.cp == 1 ? GradSum::binned : sum;
        check_against_dense(world);
        ++turn;
      }
    }
  }
}

/// A grid with the exact norm.
World exact_world(const Grid& grid) {
  World world = reference_world(0, grid, 1);
  world.tensors = cut_tensors();
  world.shards = World::contract_map(1024);
  world.setup.hyper.norm = NormForm::exact;
  return world;
}

}  // namespace

TEST_CASE("grid: context parallel parts are leaves of the tree") {
  check_grids({{1, 2, 1, 2}, {1, 4, 1, 2}, {1, 6, 1, 2}, {1, 4, 1, 4}, {1, 8, 1, 8}});
}

TEST_CASE("grid: context parallel parts are joined before they are binned") {
  check_grids({{1, 2, 1, 2}, {1, 6, 1, 2}, {1, 4, 1, 4}, {1, 8, 1, 8}, {2, 2, 1, 2}, {1, 2, 2, 2}},
              GradSum::binned);
}

TEST_CASE("grid: instances exchange the remaining nodes of their stacks") {
  check_grids({{2, 1, 1, 1}, {2, 2, 1, 1}, {3, 2, 1, 1}, {2, 4, 1, 1}, {2, 3, 1, 2}, {4, 1, 1, 2}});
}

TEST_CASE("grid: tensor parallel parts of replicated tensors are added first") {
  check_grids({{1, 1, 2, 1}, {1, 3, 2, 1}, {1, 2, 4, 1}, {1, 1, 8, 1}});
}

TEST_CASE("grid: all kinds of parallelism together") {
  check_grids({{1, 2, 2, 2}, {2, 2, 2, 2}, {2, 2, 2, 4}, {2, 1, 4, 2}});
}

TEST_CASE("grid: a value that is not finite on one rank stops all ranks of the step") {
  const World world = exact_world({2, 2, 2, 1});
  for (int culprit = 0; culprit < 8; ++culprit) {
    std::vector<int> skipped(8, -1);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      rank.load();
      rank.optimizer->run_phase(Phase::prepare, rank.grads);
      rank.optimizer->run_phase(Phase::reduce, rank.grads);
      if (place.number == culprit) write(stored(*rank.optimizer, BufferId::grad_sum).view, inf32);
      rank.optimizer->run_phase(Phase::unscale, rank.grads);
      skipped[place.number] = rank.optimizer->skipped() ? 1 : 0;
    });
    CHECK(skipped == std::vector<int>(8, 1));
  }
}

TEST_CASE("grid: ranks with other scalars are named on every rank of the step") {
  const auto messages = [](auto change) {
    World world = exact_world({2, 3, 2, 1});
    world.setup.missing_grad = MissingGrad::skip;
    std::vector<std::string> texts(12);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      rank.load();
      if (change(place))
        write(stored(*rank.optimizer, BufferId::tensor_steps).view, std::uint64_t{9});
      try {
        rank.optimizer->run_phase(Phase::prepare, rank.grads);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::comm) texts[place.number] = error.what();
      }
    });
    for (const std::string& text : texts) CHECK(text == texts[0]);
    return texts[0].substr(0, texts[0].find(" differ"));
  };
  CHECK(messages([](const GridPlace&) { return false; }) == "");
  CHECK(messages([](const GridPlace&) { return true; }) == "");
  // Numbered in the whole step: (instance * 3 + rank) * 2 + TP rank.
  const std::string start = "the step scalars of ";
  CHECK(messages([](const GridPlace& p) {
          return p.rank == 2 && p.instance == 1 && p.tp_rank == 1;
        }) == start + "rank 11");
  CHECK(messages([](const GridPlace& p) { return p.rank == 1; }) == start + "ranks 2, 3, 8 and 9");
  CHECK(messages([](const GridPlace& p) { return p.instance == 1; }) ==
        start + "ranks 6, 7, 8, 9, 10 and 11");
  CHECK(messages([](const GridPlace& p) { return p.tp_rank == 1; }) ==
        start + "ranks 1, 3, 5, 7, 9 and 11");
  CHECK(messages([](const GridPlace& p) { return p.rank == 1 || p.tp_rank == 1; }) ==
        start + "ranks 1, 2, 3, 5, 7, 8, 9 and 11");
}

}  // namespace grid_test
