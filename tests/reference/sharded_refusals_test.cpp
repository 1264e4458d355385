// Overflows, setups and environments that stop a rank, and the emptiest setup that does not.

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/reference/distributed_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("ranks: an overflow on one shard stops every rank") {
  for (int stage = 0; stage <= 2; ++stage) {
    std::vector<int> applied(5, -1);
    ThreadWorld world(5);
    run_ranks(world, [&](Communicator& comm) {
      const FlatLayout layout = odd_layout();
      const ShardMap shards(layout.padded_numel(), 5, 1 << 20);
      const InitialState initial(layout);
      OptimizerSetup setup;
      setup.layout = &layout;
      setup.shards = &shards;
      setup.comm = &comm;
      setup.stage = stage;
      setup.scaler = lively_scaler();
      const auto optimizer = reference::make_distributed_optimizer(setup);
      optimizer->load_state(initial.view());
      RandomLeaves leaves(layout, DType::fp32);
      leaves.overflow = true;
      applied[static_cast<std::size_t>(comm.rank())] = optimizer->step(leaves) ? 1 : 0;
    });
    CHECK(applied == std::vector<int>(5, 0));
  }
}

TEST_CASE("rank: what is refused") {
  const auto refuses = [](auto change) {
    Alone rank(1);
    rank.make();
    change(rank);
    ZP_CHECK_INVALID(rank.make());
  };
  refuses([](Alone& rank) { rank.setup.layout = nullptr; });
  refuses([](Alone& rank) { rank.setup.shards = nullptr; });
  refuses([](Alone& rank) { rank.setup.comm = nullptr; });
  refuses([](Alone& rank) { rank.setup.stage = -1; });
  refuses([](Alone& rank) { rank.setup.stage = 3; });
  refuses([](Alone& rank) { rank.setup.micro_batches = 0; });
  refuses([](Alone& rank) { rank.setup.leaf_dtype = DType::fp64; });
  refuses([](Alone& rank) { rank.setup.param_dtype = DType::u32; });
  refuses([](Alone& rank) { rank.setup.hyper.eps = 0; });
  refuses([](Alone& rank) { rank.setup.scaler.growth_interval = 0; });
  refuses([](Alone& rank) { rank.shards = ShardMap(rank.layout.padded_numel(), 2, 1024); });
  refuses([](Alone& rank) { rank.shards = ShardMap(1024, 1, 1024); });
  refuses([](Alone& rank) { rank.initial.exp_avg.pop_back(); });

  Alone rank(1);
  rank.optimizer = reference::make_distributed_optimizer(rank.setup);
  ZP_CHECK_INVALID(rank.run(Phase::prepare));  // nothing is loaded
  rank.make();
  rank.run(Phase::prepare);
  rank.leaves = RandomLeaves(rank.layout, DType::bf16);  // the setup says fp32
  ZP_CHECK_INVALID(rank.run(Phase::reduce));
}

TEST_CASE("rank: a layout without elements runs") {
  const FlatLayout layout(std::vector<ParamSpec>{{"nothing", {0}}});
  const ShardMap shards(0, 1, 1024);
  const auto comm = make_self_communicator();
  for (int stage = 0; stage <= 2; ++stage) {
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    const auto optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state({});
    struct NoLeaf final : LeafSource {
      TensorView leaf(std::int64_t) override { return {}; }
    } leaves;
    CHECK(optimizer->step(leaves));
    CHECK(read<double>(stored(*optimizer, BufferId::grad_norm).view) == 0);
    CHECK(optimizer->applied_steps() == 1);
  }
}

#if defined(__x86_64__)
TEST_CASE("rank: a wrong floating-point environment is reported, not used") {
  Alone rank(1);
  rank.make();
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 1U << 15);  // flush to zero
  ErrorCode code = ErrorCode::internal;
  try {
    rank.run(Phase::prepare);
  } catch (const Error& error) {
    code = error.code();
  }
  _mm_setcsr(before);
  CHECK(code == ErrorCode::fp_environment);
}
#endif
