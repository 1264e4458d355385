// Setups that fail before the first step.

#include "tests/reference/alone.hpp"

namespace setup_refusals_test {

using namespace zeroproof;
using namespace zeroproof::tests;

TEST_CASE("rank: invalid setups are rejected") {
  const auto refuses = [](auto change) {
    Alone rank(1);
    rank.make();
    change(rank);
    ZP_CHECK_INVALID(rank.make());
  };
  refuses([](Alone& rank) {
    rank.setup.stage = 4;
  });  // and everything else that validate_setup rejects
  refuses([](Alone& rank) { rank.setup.hyper.eps = 0; });
  refuses([](Alone& rank) { rank.setup.scaler.growth_interval = 0; });
  refuses([](Alone& rank) { rank.initial.slots[StateSlot::exp_avg].pop_back(); });
  refuses([](Alone& rank) { rank.initial.applied_steps = -1; });
  refuses(
      [](Alone& rank) { rank.initial.applied_steps = std::numeric_limits<std::int64_t>::max(); });
  refuses([](Alone& rank) { rank.setup.hyper.momentum = 0.5; });  // the rule is adamw
  refuses([](Alone& rank) { rank.setup.hyper.rule = static_cast<UpdateRule>(99); });
  refuses([](Alone& rank) {
    rank.setup.missing_grad = MissingGrad::skip;
    rank.initial.tensor_steps.pop_back();
  });
  refuses([](Alone& rank) { rank.setup.grad_sum = GradSum::native; });

  Alone rank(1);
  rank.setup.param_rounding = ParamRounding::stochastic;
  rank.setup.param_dtype = DType::fp32;
  ZP_CHECK_INVALID(
      reference::make_distributed_optimizer(rank.setup));  // not only when parameters are made
  rank.setup.param_rounding = ParamRounding::nearest;
  rank.setup.param_dtype = DType::bf16;
  rank.optimizer = reference::make_distributed_optimizer(rank.setup);
  ZP_CHECK_INVALID(rank.run(Phase::prepare));  // before load_state
  rank.make();
  rank.run(Phase::prepare);
  rank.leaves = NumberedGrads(RankModel(odd_tensors()), {DType::bf16});  // the setup says fp32
  ZP_CHECK_INVALID(rank.run(Phase::reduce));
}

TEST_CASE("rank: a native sum is rejected with the reason") {
  Alone rank(1);
  rank.setup.grad_sum = GradSum::native;
  try {
    rank.make();
    FAIL("a native sum was accepted");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("the bounds of R11") != std::string::npos);
  }
}

}  // namespace setup_refusals_test
