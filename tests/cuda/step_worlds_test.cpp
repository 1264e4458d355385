// The bits of a step do not depend on the world, the stage, the assignment of micro-batches or the shard map (R11, R13).

#include "tests/cuda/step_world.hpp"

#include <doctest.h>

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

constexpr MicroBatchOrder orders[] = {MicroBatchOrder::contiguous, MicroBatchOrder::strided};

/// The canonical tree over leaves [first, last) of one element, written by its definition: split at the largest aligned
/// block.
float tree(std::int64_t first, std::int64_t last, std::int64_t index) {
  if (last - first == 1) return leaf_value(first, index);
  std::int64_t half = 1;
  while (half * 2 < last - first) half *= 2;
  return tree(first, first + half, index) + tree(first + half, last, index);
}

void check_same(const StepRun& run, int world, const ShardMap& shards, const StepResult& want) {
  const StepResult got = run.on(world, shards);
  CHECK(got.sums.problem == "");
  CHECK(got.rest.problem == "");
  CHECK(got.sums.values == want.sums.values);
  CHECK(got.rest.values == want.rest.values);
}

}  // namespace

TEST_CASE("one rank: G is the canonical tree, element by element") {
  for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 11}) {
    CAPTURE(m);
    StepRun run{odd_layout(), {}};
    run.setup.micro_batches = m;
    const StepResult result = run.alone();
    const std::vector<std::uint64_t>& sum = result.sums.values.at(BufferId::grad_sum);
    int wrong = 0;
    for (const TensorSlot& slot : odd_layout().tensors()) {
      for (std::int64_t i = slot.begin; i < slot.begin + slot.numel; ++i) {
        const auto want = std::bit_cast<std::uint32_t>(tree(0, m, i));
        wrong += sum[static_cast<std::size_t>(i)] != want ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("left to the stage, micro-batches are contiguous in stages 0 and 1, strided in 2 and 3") {
  const FlatLayout& layout = odd_layout();
  const ShardMap shards(layout.padded_numel(), 2, 2048);
  for (const int stage : {0, 1, 2, 3}) {
    std::vector<std::vector<std::int64_t>> asked(2);
    const FirstState first(layout);
    const auto world = quick_world(2);
    run_ranks(*world, [&](Communicator& comm) {
      OptimizerSetup setup;
      setup.layout = &layout;
      setup.shards = &shards;
      setup.comm = &comm;
      setup.stage = stage;
      setup.micro_batches = 5;
      const auto optimizer = cuda::make_distributed_optimizer(setup);
      optimizer->load_state(first.state());
      NumberedLeaves leaves(layout, DType::fp32);
      optimizer->step(leaves);
      asked[static_cast<std::size_t>(comm.rank())] = leaves.asked;
    });
    using Numbers = std::vector<std::int64_t>;
    CHECK(asked[0] == (stage < 2 ? Numbers{0, 1} : Numbers{0, 2, 4}));
    CHECK(asked[1] == (stage < 2 ? Numbers{2, 3, 4} : Numbers{1, 3}));
  }
}

TEST_CASE("worlds, stages, assignments and shard maps: the bits of one rank") {
  const FlatLayout& layout = odd_layout();
  for (const std::int64_t m : {1, 3, 7}) {
    for (const NormForm norm : {NormForm::chunk1024, NormForm::exact}) {
      StepRun run{layout, {}};
      run.setup.micro_batches = m;
      run.setup.hyper.norm = norm;
      run.setup.leaf_dtype = m == 3 ? DType::bf16 : DType::fp32;
      run.form = m == 7 ? cuda::StepForm::fused : cuda::StepForm::phases;
      for (const int stage : {0, 1, 2, 3}) {
        run.setup.stage = stage;
        const StepResult want = run.alone();
        for (const int world : {1, 2, 3, 5, 8}) {
          for (const MicroBatchOrder order : orders) {
            CAPTURE(m);
            CAPTURE(stage);
            CAPTURE(world);
            CAPTURE(static_cast<int>(order));
            CAPTURE(static_cast<int>(norm));
            run.setup.order = order;
            const ShardMap shards = norm == NormForm::exact ? ragged_map(layout, world)
                                                            : ShardMap(layout.padded_numel(), world, 2048);
            check_same(run, world, shards, want);
          }
        }
      }
    }
  }
}

TEST_CASE("idle tensors, tokens, fp16 leaves and threads: the bits of one rank") {
  const FlatLayout& layout = odd_layout();
  for (const int stage : {1, 3}) {
    for (const MicroBatchOrder order : orders) {
      CAPTURE(stage);
      StepRun run{layout, {}};
      run.setup.stage = stage;
      run.setup.order = order;
      run.setup.micro_batches = 5;
      run.setup.leaf_dtype = DType::fp16;
      run.setup.param_dtype = DType::fp16;
      run.setup.hyper.norm = NormForm::one;
      run.setup.loss_reduction = LossReduction::tokens;
      run.setup.missing_grad = MissingGrad::skip;
      run.setup.exec.num_threads = 2;
      run.leaves = [](NumberedLeaves& source) { source.idle = true; };
      check_same(run, 3, ragged_map(layout, 3), run.alone());
    }
  }
}

TEST_CASE("an infinite leaf on one rank is skipped on all, and memory rests") {
  const FlatLayout& layout = odd_layout();
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    StepRun run{layout, {}};
    run.setup.stage = stage;
    run.setup.micro_batches = 3;
    run.setup.scaler.kind = LossScalerKind::dynamic;
    run.setup.hyper.norm = NormForm::inf;
    run.leaves = [](NumberedLeaves& source) { source.infinite_in = 2; };
    const StepResult want = run.alone();
    CHECK(want.rest.values.at(BufferId::found_inf) == std::vector<std::uint64_t>{1});
    check_same(run, 5, ragged_map(layout, 5), want);
  }
}

TEST_CASE("a layout without elements is a step too") {
  const FlatLayout none({{"empty", {0, 3}}});
  for (const int stage : {0, 1, 2, 3}) {
    StepRun run{none, {}};
    run.setup.stage = stage;
    const ShardMap shards(0, 2, 1024);
    CHECK(run.on(2, shards).rest.problem == "");
  }
}
