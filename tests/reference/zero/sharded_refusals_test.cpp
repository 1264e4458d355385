// Overflows, states and environments that stop a rank, and the smallest setups that run.

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/reference/alone.hpp"

namespace sharded_refusals_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("ranks: an overflow on one shard stops every rank") {
  for (int stage = 0; stage <= 3; ++stage) {
    World world = reference_world(stage, {1, 5}, 1);
    world.shards = World::contract_map(1 << 20);
    world.overflow_step = 1;
    std::vector<int> applied(5, -1);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      rank.load();
      applied[place.number] = rank.optimizer->step(rank.grads) ? 1 : 0;
    });
    CHECK(applied == std::vector<int>(5, 0));
  }
}

TEST_CASE("rank: state of the rule is required, and other state is not read") {
  const auto load = [](UpdateRule rule, bool amsgrad, double momentum, StateSlot missing) {
    Alone rank(1);
    rank.setup.hyper.rule = rule;
    rank.setup.hyper.amsgrad = amsgrad;
    rank.setup.hyper.momentum = momentum;
    rank.optimizer = reference::make_distributed_optimizer(rank.setup);
    FullState state = rank.initial.view();
    state.slots[missing] = {};
    state.tensor_steps = {};
    try {
      rank.optimizer->load_state(state);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      CHECK(std::string(error.what())
                .rfind("the loaded state has no " + std::string(name(missing)), 0) == 0);
      return false;
    }
    return rank.optimizer->step(rank.leaves);
  };
  using enum StateSlot;
  using enum UpdateRule;
  for (const UpdateRule rule : {adamw, adam}) {
    CHECK_FALSE(load(rule, false, 0, exp_avg));
    CHECK_FALSE(load(rule, false, 0, exp_avg_sq));
    CHECK(load(rule, false, 0, max_exp_avg_sq));
    CHECK(load(rule, false, 0, momentum_buffer));
    CHECK_FALSE(load(rule, true, 0, max_exp_avg_sq));
  }
  for (const StateSlot missing : {exp_avg, exp_avg_sq, max_exp_avg_sq}) {
    CHECK(load(sgd, false, 0, missing));
    CHECK(load(sgd, false, 0.5, missing));
    CHECK(load(sgd_ema, false, 0, missing) == (missing != exp_avg));
    CHECK(load(lion, false, 0, missing) == (missing != exp_avg));
    CHECK(load(lamb, false, 0, missing) == (missing == max_exp_avg_sq));
  }
  CHECK(load(sgd, false, 0, momentum_buffer));
  CHECK_FALSE(load(sgd, false, 0.5, momentum_buffer));
}

TEST_CASE("rank: invalid token counts are rejected") {
  struct Tokens final : GradSource {
    explicit Tokens(std::int64_t count) : count_(count) {}
    TensorView micro_batch_grad(std::int64_t) override { return {}; }
    std::int64_t num_tokens(std::int64_t) const override { return count_; }
    std::int64_t count_;
  };
  struct NoCount final : GradSource {
    TensorView micro_batch_grad(std::int64_t) override { return {}; }
  } no_count;
  for (int stage = 0; stage <= 3; ++stage) {
    Alone rank(stage);
    rank.setup.loss_reduction = LossReduction::tokens;
    rank.setup.micro_batches = 2;
    rank.make();
    const auto prepare = [&](GradSource& leaves) {
      rank.optimizer->run_phase(Phase::prepare, leaves);
    };
    const auto with = [&](std::int64_t count) {
      Tokens leaves(count);
      prepare(leaves);
      return read<StepScalars>(rank.view(BufferId::step_scalars)).inv_scale;
    };
    CHECK(with(8) == 0x1p-7F);  // S = 8, 16 tokens
    CHECK(with(0) == 0x1p-3F);
    ZP_CHECK_INVALID(with(-1));
    ZP_CHECK_INVALID(with(std::int64_t{1} << 53));
    ZP_CHECK_INVALID(with(std::int64_t{1} << 52));  // the sum is 2^53
    ZP_CHECK_INVALID(with(std::numeric_limits<std::int64_t>::max()));
    ZP_CHECK_INVALID(prepare(no_count));
  }
}

TEST_CASE("ranks: every rank gets all token counts and gradient flags") {
  // 5 ranks, 3 micro-batches: two ranks compute nothing. Only micro-batch 1 gives tensor 3 its
  // gradient.
  struct Source final : GradSource {
    TensorView micro_batch_grad(std::int64_t) override { return {}; }
    std::int64_t num_tokens(std::int64_t micro_batch) const override { return micro_batch + 1; }
    bool has_grad(std::int64_t micro_batch, std::int64_t tensor) const override {
      return tensor == 3 && micro_batch == 1;
    }
  };
  for (int stage = 0; stage <= 3; ++stage) {
    World world = reference_world(stage, {1, 5}, 3);
    world.shards = World::contract_map(1024);
    world.setup.loss_reduction = LossReduction::tokens;
    world.setup.missing_grad = MissingGrad::skip;
    std::vector<float> inv_scale(5);
    run_grid(world.grid, [&](const GridPlace& place) {
      WorldRank rank(world, place);
      rank.load();
      DistributedOptimizer& optimizer = *rank.optimizer;
      Source leaves;
      optimizer.run_phase(Phase::prepare, leaves);
      const StepScalars first = read<StepScalars>(stored(optimizer, BufferId::step_scalars).view);
      float& result = inv_scale[place.number];
      result = first.inv_scale;
      optimizer.run_phase(Phase::update, leaves);  // counts the tensors that have a gradient
      const auto steps =
          read<std::array<std::uint64_t, 5>>(stored(optimizer, BufferId::tensor_steps).view);
      if (steps != std::array<std::uint64_t, 5>{0, 1, 2, 4, 0}) result = -1;
    });
    CHECK(inv_scale == std::vector<float>(5, static_cast<float>(1.0 / (8 * 6))));
  }
}

TEST_CASE("rank: a layout without elements runs") {
  const FlatLayout layout(std::vector<ParamSpec>{{"nothing", {0}}});
  const ShardMap shards(0, 1, 1024);
  const auto comm = make_self_communicator();
  for (int stage = 0; stage <= 3; ++stage) {
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    struct NoLeaf final : GradSource {
      TensorView micro_batch_grad(std::int64_t) override { return {}; }
      std::int64_t num_tokens(std::int64_t) const override { return 0; }
    } leaves;
    for (const NormForm form :
         {NormForm::chunk1024, NormForm::exact, NormForm::inf, NormForm::one}) {
      setup.hyper.norm = form;
      setup.missing_grad = MissingGrad::zero;
      const auto optimizer = reference::make_distributed_optimizer(setup);
      optimizer->load_state({});
      CHECK(optimizer->step(leaves));
      CHECK(read<double>(stored(*optimizer, BufferId::grad_norm).view) == 0);
      CHECK(optimizer->applied_steps() == 1);

      setup.missing_grad = MissingGrad::skip;
      setup.loss_reduction = LossReduction::tokens;
      setup.param_rounding = ParamRounding::stochastic;
      const auto counting = reference::make_distributed_optimizer(setup);
      const std::vector<std::uint64_t> steps = {7};
      FullState state;
      state.tensor_steps = steps;
      counting->load_state(state);
      CHECK(counting->step(leaves));
      CHECK(read<std::uint64_t>(stored(*counting, BufferId::tensor_steps).view) ==
            8);  // an empty tensor counts too
    }
  }
}

TEST_CASE("rank: a layout without tensors runs") {
  const FlatLayout layout(std::vector<ParamSpec>{});
  const ShardMap shards(0, 1, 1024);
  const auto comm = make_self_communicator();
  struct NoLeaf final : GradSource {
    TensorView micro_batch_grad(std::int64_t) override { return {}; }
  } leaves;
  for (int stage = 0; stage <= 3; ++stage) {
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = comm.get();
    setup.stage = stage;
    setup.missing_grad = MissingGrad::skip;
    const auto optimizer = reference::make_distributed_optimizer(setup);
    optimizer->load_state({});
    CHECK(optimizer->step(leaves));
    CHECK(optimizer->applied_steps() == 1);
    CHECK(stored(*optimizer, BufferId::step_scalars).view.numel == 0);
  }
}

#if defined(__x86_64__)
TEST_CASE("rank: a wrong floating-point environment is reported") {
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

}  // namespace sharded_refusals_test
