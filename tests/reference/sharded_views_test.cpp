// What taps see of a rank, what happens when they overwrite it, and what a rank refuses.

#include <algorithm>
#include <set>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "common/comm/self.hpp"
#include "common/contracts/grad_norm.hpp"
#include "tests/reference/distributed_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// One rank alone, with everything it needs.
struct Alone {
  explicit Alone(int stage)
      : layout(odd_layout()),
        shards(layout.padded_numel(), 1, 2048),
        comm(make_self_communicator()),
        initial(layout),
        leaves(layout, DType::fp32) {
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    setup.hyper.max_norm = 2.0;
    setup.scaler = lively_scaler();
    leaves.log2_scale = 3;
  }

  void make() {
    optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state(initial.view());
  }
  void run(Phase phase) { optimizer->run_phase(phase, leaves); }
  void run_up_to(Phase last) {
    for (const Phase phase : all_phases) {
      if (phase <= last) run(phase);
    }
  }
  TensorView view(BufferId id) { return stored(*optimizer, id).view; }
  float value(BufferId id) { return read<float>(view(id)); }

  FlatLayout layout;
  ShardMap shards;
  std::unique_ptr<Communicator> comm;
  InitialState initial;
  RandomLeaves leaves;
  OptimizerSetup setup;
  std::unique_ptr<DistributedOptimizer> optimizer;
};

}  // namespace

TEST_CASE("views: every phase shows what R6 says it writes") {
  const std::vector<std::vector<BufferId>> expected = {
      {BufferId::step_scalars},
      {BufferId::grad_sum},
      {BufferId::unscaled_grad, BufferId::found_inf, BufferId::loss_scaler},
      {BufferId::norm_limbs, BufferId::grad_norm},
      {BufferId::clip_coef, BufferId::grad},
      {BufferId::exp_avg, BufferId::exp_avg_sq, BufferId::master, BufferId::applied_steps},
      {BufferId::param_shard},
      {BufferId::param_full}};
  for (int stage = 0; stage <= 2; ++stage) {
    Alone rank(stage);
    rank.make();
    for (const Phase phase : all_phases) {
      rank.run(phase);
      std::set<BufferId> shown;
      for (const ExposedBuffer& buffer : rank.optimizer->exposed(phase)) {
        shown.insert(buffer.id);
        CHECK(buffer.view.data == rank.view(buffer.id).data);
        std::int64_t in_ranges = 0;
        for (const FlatRange& range : buffer.ranges) in_ranges += range.numel();
        CHECK((buffer.ranges.empty() || in_ranges == buffer.view.numel));
      }
      const std::vector<BufferId>& ids = expected[static_cast<std::size_t>(phase)];
      CHECK(shown == std::set<BufferId>(ids.begin(), ids.end()));
    }
  }
}

TEST_CASE("views: types, lengths, and one piece of memory each") {
  Alone rank(1);
  rank.make();
  const auto has = [&](BufferId id, DType dtype, std::int64_t numel) {
    return rank.view(id).dtype == dtype && rank.view(id).numel == numel;
  };
  CHECK(has(BufferId::step_scalars, DType::u32, 10));
  CHECK(has(BufferId::applied_steps, DType::u64, 1));
  CHECK(has(BufferId::found_inf, DType::u32, 1));
  CHECK(has(BufferId::loss_scaler, DType::u32, 3));
  CHECK(has(BufferId::norm_limbs, DType::u64, 23));
  CHECK(has(BufferId::grad_norm, DType::fp64, 1));
  CHECK(has(BufferId::clip_coef, DType::fp32, 1));
  CHECK(has(BufferId::master, DType::fp32, 7168));
  CHECK(has(BufferId::param_shard, DType::bf16, 7168));
  CHECK(has(BufferId::param_full, DType::bf16, 7168));
  std::set<void*> memory;
  for (const ExposedBuffer& buffer : rank.optimizer->storage()) memory.insert(buffer.view.data);
  CHECK(memory.size() == num_buffer_ids);
}

TEST_CASE("views: later phases read what a tap wrote") {
  for (int stage = 0; stage <= 2; ++stage) {
    Alone rank(stage);
    rank.make();
    rank.run(Phase::prepare);
    StepScalars scalars = read<StepScalars>(rank.view(BufferId::step_scalars));
    scalars.inv_scale = 0.5F;
    scalars.step_size = 2.0F;
    scalars.has_decay = 0;
    write(rank.view(BufferId::step_scalars), scalars);

    rank.run(Phase::reduce);
    write(rank.view(BufferId::grad_sum), 12.0F);  // element 0 from here on
    rank.run(Phase::unscale);
    CHECK(rank.value(BufferId::unscaled_grad) == 6.0F);

    write(rank.view(BufferId::unscaled_grad), 3.0F);
    rank.run(Phase::norm);
    const NormLimbs limbs = read<NormLimbs>(rank.view(BufferId::norm_limbs));
    write(rank.view(BufferId::unscaled_grad), 0.0F);
    rank.run(Phase::norm);
    CHECK_FALSE(read<NormLimbs>(rank.view(BufferId::norm_limbs)) == limbs);

    write(rank.view(BufferId::unscaled_grad), 3.0F);
    write(rank.view(BufferId::grad_norm), 8.0 - 1e-6);
    rank.run(Phase::clip);
    CHECK(rank.value(BufferId::clip_coef) == 0.25F);
    CHECK(rank.value(BufferId::grad) == 0.75F);

    write(rank.view(BufferId::grad), 0.0F);
    write(rank.view(BufferId::exp_avg), 0.0F);
    write(rank.view(BufferId::master), 1.5F);
    write(rank.view(BufferId::applied_steps), std::uint64_t{41});
    rank.run(Phase::update);
    CHECK(rank.value(BufferId::master) == 1.5F);  // no gradient, no decay
    CHECK(rank.optimizer->applied_steps() == 42);

    write(rank.view(BufferId::master), 2.5F);
    rank.run(Phase::cast);
    CHECK(element_bits(rank.view(BufferId::param_shard), 0) == 0x4020);
    write(rank.view(BufferId::param_shard), bf16{0x4040});
    rank.run(Phase::gather);
    CHECK(element_bits(rank.view(BufferId::param_full), 0) == 0x4040);

    write(rank.view(BufferId::loss_scaler), LossScalerState{7, 0, 1});
    write(rank.view(BufferId::applied_steps), std::uint64_t{0});
    CHECK(rank.optimizer->loss_scaler().log2_scale == 7);
    rank.run(Phase::prepare);
    CHECK(read<StepScalars>(rank.view(BufferId::step_scalars)).inv_scale == 0x1p-7F);
  }
}

TEST_CASE("views: found_inf decides about the rest of the step") {
  Alone rank(1);
  rank.make();
  rank.run_up_to(Phase::unscale);
  CHECK_FALSE(rank.optimizer->skipped());
  write(rank.view(BufferId::found_inf), std::uint32_t{1});
  CHECK(rank.optimizer->skipped());
  for (const Phase phase : {Phase::norm, Phase::clip, Phase::update, Phase::cast, Phase::gather}) {
    ZP_CHECK_INVALID(rank.run(phase));
  }
  rank.run(Phase::prepare);
  CHECK_FALSE(rank.optimizer->skipped());

  rank.leaves.overflow = true;
  rank.run(Phase::reduce);
  write(rank.view(BufferId::grad_norm), 1.0);
  write(rank.view(BufferId::clip_coef), 1.0F);
  rank.run(Phase::unscale);
  CHECK(rank.optimizer->skipped());
  CHECK(std::isnan(read<double>(rank.view(BufferId::grad_norm))));
  CHECK(std::isnan(rank.value(BufferId::clip_coef)));
}

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
