// Several optimizer instances and context parallelism: the bits of one rank (R11). Scalars that differ anywhere (R5).

#include "tests/cuda/step_grid.hpp"

#include <doctest.h>

#include "common/base/error.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// A step of data ranks only: instances, and cp ranks of every micro-batch.
StepResult on_data_grid(const StepRun& run, Grid grid, int cp, const ShardMap& shards) {
  grid.make_groups();
  Collector sums(run.layout);
  Collector rest(run.layout);
  const FirstState first(run.layout);
  const auto world = quick_world(grid.size());
  run_ranks(*world, [&](Communicator& all) {
    const GridPlace place(grid, all.rank());
    OptimizerSetup setup = run.setup;
    place.into(grid, setup);
    setup.layout = &run.layout;
    setup.shards = &shards;
    setup.cp = cp;
    const auto optimizer = cuda::make_distributed_optimizer(setup, run.form);
    NumberedLeaves leaves(run.layout, setup.leaf_dtype);
    leaves.parts = cp;
    leaves.part = all.rank() % cp;
    run_steps(*optimizer, leaves, first.state(), run.steps, sums, rest);
  });
  return {sums.result(), rest.result(run.setup.stage == 3)};
}

/// One rank that takes the parts for micro-batches of their own; tokens make the divisor the same.
StepResult parts_alone(StepRun run, int cp) {
  run.setup.micro_batches *= cp;
  run.leaves = [cp](NumberedLeaves& leaves) {
    leaves.parts = cp;
    leaves.tokens_per_part = true;
  };
  return run.alone();
}

void check_equal(const StepResult& got, const StepResult& want) {
  CHECK(got.sums.problem == "");
  CHECK(got.rest.problem == "");
  CHECK(got.sums.values == want.sums.values);
  CHECK(got.rest.values == want.rest.values);
}

}  // namespace

TEST_CASE("instances and CP ranks: the bits of one rank") {
  const FlatLayout& layout = odd_layout();
  struct Case {
    int instances, ranks, cp;
  };
  for (const GradSum sum : {GradSum::tree, GradSum::binned}) {
    for (const Case& c : {Case{2, 1, 1}, Case{2, 3, 1}, Case{3, 2, 1}, Case{1, 4, 2}, Case{2, 2, 2},
                          Case{2, 2, 4}, Case{1, 8, 8}, Case{1, 6, 2}, Case{2, 1, 2}}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const MicroBatchOrder order : orders) {
          CAPTURE(static_cast<int>(sum));
          CAPTURE(c.instances);
          CAPTURE(c.ranks);
          CAPTURE(c.cp);
          CAPTURE(stage);
          CAPTURE(static_cast<int>(order));
          StepRun run{layout, {}};
          run.steps = 1;
          run.setup.stage = stage;
          run.setup.grad_sum = sum;
          run.setup.order = order;
          run.setup.micro_batches = stage == 2 ? 1 : 7;
          run.setup.leaf_dtype = stage == 3 ? DType::bf16 : DType::fp32;
          run.setup.loss_reduction = LossReduction::tokens;
          run.setup.hyper.norm = NormForm::exact;
          check_equal(on_data_grid(run, {c.instances, c.ranks}, c.cp, ragged_map(layout, c.ranks)),
                      parts_alone(run, c.cp));
        }
      }
    }
  }
}

TEST_CASE("scalars that differ on one rank are the same error on every rank, naming it") {
  const FlatLayout& layout = odd_layout();
  for (int culprit = 0; culprit < 8; ++culprit) {
    CAPTURE(culprit);
    Grid grid{2, 2, 2};
    grid.make_groups();
    const ShardMap shards(layout.padded_numel(), 2, 2048);
    std::vector<std::string> texts(8);
    const auto world = quick_world(8);
    run_ranks(*world, [&](Communicator& all) {
      const GridPlace place(grid, all.rank());
      OptimizerSetup setup;
      place.into(grid, setup);
      setup.layout = &layout;
      setup.shards = &shards;
      setup.stage = 1;
      setup.hyper.norm = NormForm::exact;
      setup.placement.resize(layout.tensors().size());
      if (all.rank() == culprit) setup.hyper.weight_decay *= 2;
      const auto optimizer = cuda::make_distributed_optimizer(setup);
      optimizer->load_state(FirstState(layout).state());
      NumberedLeaves leaves(layout, DType::fp32);
      std::string& text = texts[static_cast<std::size_t>(all.rank())];
      try {
        optimizer->run_phase(Phase::prepare, leaves);
      } catch (const Error& error) {
        text = error.code() == ErrorCode::comm ? error.what() : "another error";
      }
    });
    const std::string want =
        culprit == 0 ? "ranks 1, 2, 3, 4, 5, 6 and 7 differ" : "rank " + std::to_string(culprit) + " differ";
    for (const std::string& text : texts) {
      CHECK(text == texts.front());
      CHECK(text.find(want) != std::string::npos);
    }
  }
}
