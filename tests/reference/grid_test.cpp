// Context and tensor parallelism, and several instances: what the undistributed optimizer computes, on every rank.

#include "tests/reference/grid_pair.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// Every stage and order; the other choices take turns.
void check_grids(const std::vector<Grid>& grids) {
  std::size_t turn = 0;
  for (const Grid& grid : grids) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const MicroBatchOrder order : {MicroBatchOrder::contiguous, MicroBatchOrder::strided}) {
        GridCase c;
        c.grid = grid;
        c.stage = stage;
        c.micro_batches = std::array<std::int64_t, 4>{1, 3, 5, 2}[turn % 4];
        c.order = order;
        c.layered = turn % 3 == 1;
        c.leaf_dtype = turn % 5 == 2 ? DType::bf16 : DType::fp32;
        c.settings.hyper = usual_hyper();
        constexpr std::array<NormForm, 4> forms = {NormForm::exact, NormForm::inf, NormForm::one,
                                                   NormForm::chunk1024};
        c.settings.hyper.norm = forms[turn % (grid.tp == 1 ? 4 : 3)];
        c.settings.missing_grad = turn % 4 == 1 ? MissingGrad::skip : MissingGrad::zero;
        c.settings.param_rounding = turn % 7 < 5 ? ParamRounding::stochastic : ParamRounding::nearest;
        c.settings.loss_reduction = turn % 3 == 0 ? LossReduction::tokens : LossReduction::mean;
        c.settings.grad_sum = turn % 11 == 4 ? GradSum::binned : GradSum::tree;
        check_grid(c);
        ++turn;
      }
    }
  }
}

/// What one rank of a grid makes its optimizer from, with the exact norm.
struct GridRank {
  GridRank(const Grid& grid, const GridPlace& place)
      : model(grid.tp),
        layout(model.layout()),
        shards(layout.padded_numel(), grid.ranks, 1024),
        initial(layout) {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = place.comm;
    setup.replicas = place.replicas;
    setup.tp = place.tp;
    setup.hyper.norm = NormForm::exact;
  }

  const CutModel model;
  const FlatLayout layout;
  const ShardMap shards;
  const InitialState initial;
  OptimizerSetup setup;
};

}  // namespace

TEST_CASE("grid: context parallel parts are leaves of the tree") {
  check_grids({{1, 2, 1, 2}, {1, 4, 1, 2}, {1, 6, 1, 2}, {1, 4, 1, 4}, {1, 8, 1, 8}});
}

TEST_CASE("grid: instances exchange what is left on their stacks") {
  check_grids({{2, 1, 1, 1}, {2, 2, 1, 1}, {3, 2, 1, 1}, {2, 4, 1, 1}, {2, 3, 1, 2}, {4, 1, 1, 2}});
}

TEST_CASE("grid: tensor parallel parts of replicated tensors are added first") {
  check_grids({{1, 1, 2, 1}, {1, 3, 2, 1}, {1, 2, 4, 1}, {1, 1, 8, 1}});
}

TEST_CASE("grid: everything at once") {
  check_grids({{1, 2, 2, 2}, {2, 2, 2, 2}, {2, 2, 2, 4}, {2, 1, 4, 2}});
}

TEST_CASE("grid: a value that is not finite on one rank stops every rank of the step") {
  const Grid grid{2, 2, 2, 1};
  for (int culprit = 0; culprit < 8; ++culprit) {
    std::vector<int> skipped(8, -1);
    run_grid(grid, [&](const GridPlace& place) {
      GridRank rank(grid, place);
      PartSource source(rank.model, grid, 0, place.tp_rank, DType::fp32);
      rank.setup.placement = source.placement();
      const auto optimizer = reference::make_distributed_optimizer(rank.setup);
      optimizer->load_state(rank.initial.view());
      optimizer->run_phase(Phase::prepare, source);
      optimizer->run_phase(Phase::reduce, source);
      if (place.number == culprit) write(stored(*optimizer, BufferId::grad_sum).view, inf32);
      optimizer->run_phase(Phase::unscale, source);
      skipped[static_cast<std::size_t>(place.number)] = optimizer->skipped() ? 1 : 0;
    });
    CHECK(skipped == std::vector<int>(8, 1));
  }
}

TEST_CASE("grid: ranks with other scalars are named on every rank of the step") {
  const auto messages = [](auto change) {
    const Grid grid{2, 3, 2, 1};
    std::vector<std::string> texts(12);
    run_grid(grid, [&](const GridPlace& place) {
      GridRank rank(grid, place);
      if (change(place)) rank.setup.hyper.lr = 0.5;
      const auto optimizer = reference::make_distributed_optimizer(rank.setup);
      optimizer->load_state(rank.initial.view());
      PartSource source(rank.model, grid, 0, place.tp_rank, DType::fp32);
      try {
        optimizer->run_phase(Phase::prepare, source);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::comm) texts[static_cast<std::size_t>(place.number)] = error.what();
      }
    });
    for (const std::string& text : texts) CHECK(text == texts[0]);
    return texts[0].substr(0, texts[0].find(" differ"));
  };
  CHECK(messages([](const GridPlace&) { return false; }) == "");
  CHECK(messages([](const GridPlace&) { return true; }) == "");
  const std::string start = "the step scalars of ";
  CHECK(messages([](const GridPlace& p) { return p.rank == 2 && p.instance == 1 && p.tp_rank == 1; }) ==
        start + "rank 2");
  CHECK(messages([](const GridPlace& p) { return p.rank == 1; }) == start + "rank 1");
  CHECK(messages([](const GridPlace& p) { return p.instance == 1; }) == start + "instance 1");
  CHECK(messages([](const GridPlace& p) { return p.tp_rank == 1; }) == start + "TP rank 1");
  CHECK(messages([](const GridPlace& p) { return p.rank == 1 || p.tp_rank == 1; }) ==
        start + "rank 1, TP rank 1");
}
