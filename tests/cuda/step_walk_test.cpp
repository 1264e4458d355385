// Peaks of memory against the walk of cuda/README.md, "Memory of a step".

#include <doctest.h>

#include "tests/cuda/memory_walk.hpp"
#include "tests/cuda/step_grid.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// What the optimizer counted, against the walk, on every rank.
void check(const OptimizerSetup& setup, int instances, int ranks, int tp, const ShardMap& shards) {
  const FlatLayout& layout = odd_layout();
  constexpr std::int64_t replicated = 3;
  Grid grid{instances, ranks, tp};
  grid.make_groups();
  const auto world = quick_world(grid.size());
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<MemoryUse> got(at(world->world_size())), want(at(world->world_size()));
  const FirstState first(layout);
  run_ranks(*world, [&](Communicator& all) {
    const GridPlace place(grid, all.rank());
    Shape shape{setup, instances, ranks, place.instance, place.rank, replicated, tp};
    OptimizerSetup& mine = shape.setup;
    mine.layout = &layout;
    mine.shards = &shards;
    place.into(grid, mine);
    mine.hyper.norm = NormForm::exact;
    for (std::size_t t = 0; t < layout.tensors().size() && tp > 1; ++t) {
      mine.placement.push_back({t < replicated, 0, 1, 1});
    }
    const auto optimizer = cuda::make_distributed_optimizer(mine);
    optimizer->load_state(first.state());
    NumberedLeaves leaves(layout, mine.leaf_dtype);
    optimizer->step(leaves);
    optimizer->step(leaves);
    got[at(all.rank())] = optimizer->memory();
    Walk walk(shape);
    walk.step();
    walk.step();
    want[at(all.rank())] = walk.use();
  });
  for (std::size_t r = 0; r < got.size(); ++r) {
    CAPTURE(r);
    CHECK(got[r].now == want[r].now);
    CHECK(got[r].peak == want[r].peak);
    CHECK(got[r].total_peak == want[r].total_peak);
  }
}

}  // namespace

TEST_CASE("memory: the walk gives the peaks of every class and of their sum") {
  struct Case {
    int instances, ranks, tp, cp;
  };
  for (const Case& c : {Case{1, 1, 1, 1}, Case{1, 2, 1, 1}, Case{1, 3, 1, 1}, Case{1, 8, 1, 1},
                        Case{2, 3, 1, 1}, Case{1, 4, 1, 2}, Case{2, 2, 2, 2}, Case{1, 2, 2, 1}}) {
    for (const GradSum sum : {GradSum::tree, GradSum::binned}) {
      for (const int stage : {0, 1, 2, 3}) {
        for (const MicroBatchOrder order : orders) {
          for (const bool ragged : {false, true}) {
            CAPTURE(c.instances);
            CAPTURE(c.ranks);
            CAPTURE(c.tp);
            CAPTURE(c.cp);
            CAPTURE(static_cast<int>(sum));
            CAPTURE(stage);
            CAPTURE(static_cast<int>(order));
            CAPTURE(ragged);
            OptimizerSetup setup;
            setup.stage = stage;
            setup.cp = c.cp;
            setup.order = order;
            setup.grad_sum = sum;
            setup.micro_batches = 7;
            setup.leaf_dtype = stage % 2 == 0 ? DType::bf16 : DType::fp32;
            setup.persistent_numel = 77;
            const FlatLayout& layout = odd_layout();
            check(setup, c.instances, c.ranks, c.tp,
                  ragged ? ragged_map(layout, c.ranks) : ShardMap(layout.padded_numel(), c.ranks, 2048));
          }
        }
      }
    }
  }
}
