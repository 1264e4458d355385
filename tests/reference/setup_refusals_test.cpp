// Setups that stop a rank before its first step.

#include "tests/reference/distributed_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

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
  refuses([](Alone& rank) { rank.setup.stage = 4; });
  refuses([](Alone& rank) { rank.setup.micro_batches = 0; });
  refuses([](Alone& rank) { rank.setup.leaf_dtype = DType::fp64; });
  refuses([](Alone& rank) { rank.setup.param_dtype = DType::u32; });
  refuses([](Alone& rank) { rank.setup.hyper.eps = 0; });
  refuses([](Alone& rank) { rank.setup.scaler.growth_interval = 0; });
  refuses([](Alone& rank) { rank.shards = ShardMap(rank.layout.padded_numel(), 2, 1024); });
  refuses([](Alone& rank) { rank.shards = ShardMap(1024, 1, 1024); });
  refuses([](Alone& rank) { rank.initial.exp_avg.pop_back(); });
  refuses([](Alone& rank) { rank.initial.applied_steps = -1; });
  refuses([](Alone& rank) { rank.initial.applied_steps = std::numeric_limits<std::int64_t>::max(); });
  refuses([](Alone& rank) { rank.setup.hyper.momentum = 0.5; });  // the rule is adamw
  refuses([](Alone& rank) { rank.setup.hyper.rule = static_cast<UpdateRule>(99); });
  refuses([](Alone& rank) {
    rank.setup.param_rounding = ParamRounding::stochastic;
    rank.setup.param_dtype = DType::fp16;
  });
  refuses([](Alone& rank) {
    rank.setup.missing_grad = MissingGrad::skip;
    rank.initial.tensor_steps.pop_back();
  });
  refuses([](Alone& rank) { rank.setup.persistent_numel = -1; });
  for (const int cp : {-2, 0, 2, 3, 4, 16}) {  // one data rank is no pair, and three no power of two
    refuses([&](Alone& rank) { rank.setup.cp = cp; });
  }
  refuses([](Alone& rank) { rank.setup.grad_sum = GradSum::native; });
  refuses([](Alone& rank) {
    rank.setup.grad_sum = GradSum::binned;
    rank.setup.micro_batches = 129;
  });
  // A placement for some tensors, and rows that are none.
  refuses([](Alone& rank) { rank.setup.placement.resize(4); });
  for (const TensorPlacement& place :
       {TensorPlacement{true, 0, 0, 1}, TensorPlacement{true, -1, 1, 1}, TensorPlacement{true, 0, 2, 1}}) {
    refuses([&](Alone& rank) { rank.setup.placement.assign(5, place); });
  }
  // Maps whose padded_numel and world fit, and which own too little: nobody has the last element of b.
  const Bucket too_little{{0, 7168}, {{{0, 3123}, {4096, 7168}}}};
  refuses([&](Alone& rank) {
    rank.shards = ShardMap(7168, 1, {too_little});
    rank.setup.hyper.norm = NormForm::exact;
  });

  Alone rank(1);
  rank.setup.param_rounding = ParamRounding::stochastic;
  rank.setup.param_dtype = DType::fp32;
  ZP_CHECK_INVALID(reference::make_distributed_optimizer(rank.setup));  // not only when parameters are made
  rank.setup.param_rounding = ParamRounding::nearest;
  rank.setup.param_dtype = DType::bf16;
  rank.optimizer = reference::make_distributed_optimizer(rank.setup);
  ZP_CHECK_INVALID(rank.run(Phase::prepare));  // nothing is loaded
  rank.make();
  rank.run(Phase::prepare);
  rank.leaves = RandomLeaves(rank.layout, DType::bf16);  // the setup says fp32
  ZP_CHECK_INVALID(rank.run(Phase::reduce));
}

TEST_CASE("rank: the norm chunk1024 needs whole chunks of the undistributed model") {
  const auto refuses = [](auto change) {
    for (const NormForm form : {NormForm::chunk1024, NormForm::exact, NormForm::one, NormForm::inf}) {
      for (int stage = 0; stage <= 3; ++stage) {
        Alone rank(stage);
        rank.setup.hyper.norm = form;
        change(rank);
        if (form == NormForm::chunk1024) {
          ZP_CHECK_INVALID(rank.make());
        } else {
          rank.make();
        }
      }
    }
  };
  refuses([](Alone& rank) {
    Case c;
    c.map = MapKind::stretches;
    rank.shards = map_of(rank.layout, c);
  });
  ThreadWorld pair(2);
  const auto tp = pair.communicator(0);
  refuses([&](Alone& rank) { rank.setup.tp = tp.get(); });
}

TEST_CASE("rank: what is refused says why") {
  const auto message = [](auto change) {
    Alone rank(1);
    change(rank.setup);
    try {
      rank.make();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string native = message([](OptimizerSetup& setup) { setup.grad_sum = GradSum::native; });
  CHECK(native.find("judged by the bounds") != std::string::npos);
  const auto binned = [&](std::int64_t micro_batches) {
    return message([&](OptimizerSetup& setup) {
      setup.grad_sum = GradSum::binned;
      setup.micro_batches = micro_batches;
    });
  };
  CHECK(binned(128) == "");
  CHECK(binned(129).find("128 leaves") != std::string::npos);
}

TEST_CASE("ranks: parts of a micro-batch are leaves of a binned sum") {
  ThreadWorld world(4);
  std::vector<std::string> outcome(4);
  run_ranks(world, [&](Communicator& comm) {
    const FlatLayout layout = odd_layout();
    const ShardMap shards(layout.padded_numel(), 4, 1024);
    OptimizerSetup setup;
    setup.layout = &layout;
    setup.shards = &shards;
    setup.comm = &comm;
    setup.cp = 4;
    setup.grad_sum = GradSum::binned;
    std::string& text = outcome[static_cast<std::size_t>(comm.rank())];
    for (const std::int64_t micro_batches : {32, 33}) {
      setup.micro_batches = micro_batches;
      try {
        reference::make_distributed_optimizer(setup);
        text += "made ";
      } catch (const Error&) {
        text += "refused ";
      }
    }
  });
  CHECK(outcome == std::vector<std::string>(4, "made refused "));
}
