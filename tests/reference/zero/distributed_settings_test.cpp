// Every setting in some worlds.

#include <array>
#include <utility>

#include "tests/reference/alone.hpp"

namespace distributed_settings_test {

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

/// The varied part of a setup.
struct Named {
  std::string name;
  StepSettings settings;
};

/// Every rule and every setting, alone and together.
std::vector<Named> all_settings() {
  std::vector<Named> all;
  const auto add = [&](const std::string& name, UpdateRule rule) -> StepSettings& {
    all.push_back({name, {}});
    all.back().settings.hyper = usual_hyper(rule);
    return all.back().settings;
  };
  add("adam", UpdateRule::adam);
  add("adamw without decay", UpdateRule::adamw).hyper.weight_decay = 0;
  add("adam amsgrad", UpdateRule::adam).hyper.amsgrad = true;
  OptimizerHyper& amsgrad = add("adamw amsgrad maximize", UpdateRule::adamw).hyper;
  amsgrad.amsgrad = amsgrad.maximize = true;
  add("adamw without bias correction", UpdateRule::adamw).hyper.bias_correction = false;
  add("sgd", UpdateRule::sgd);
  OptimizerHyper& dampened = add("sgd dampened momentum", UpdateRule::sgd).hyper;
  dampened.momentum = 0.9;
  dampened.dampening = 0.25;
  OptimizerHyper& nesterov = add("sgd nesterov maximize", UpdateRule::sgd).hyper;
  nesterov.momentum = 0.9;
  nesterov.nesterov = nesterov.maximize = true;
  add("sgd_ema", UpdateRule::sgd_ema);
  add("sgd_ema maximize", UpdateRule::sgd_ema).hyper.maximize = true;
  add("lion", UpdateRule::lion).hyper.beta2 = 0.99F;
  add("lamb", UpdateRule::lamb);
  for (const NormForm form : {NormForm::exact, NormForm::inf, NormForm::one}) {
    add("norm form " + std::to_string(static_cast<int>(form)), UpdateRule::adamw).hyper.norm = form;
  }
  OptimizerHyper& by_value = add("clip by value alone", UpdateRule::sgd).hyper;
  by_value.max_norm.reset();
  by_value.clip_value = 0.75;
  add("clip by both", UpdateRule::adamw).hyper.clip_value = 0.01;
  add("tokens", UpdateRule::adamw).loss_reduction = LossReduction::tokens;
  for (const NormForm form : {NormForm::chunk1024, NormForm::exact, NormForm::inf, NormForm::one}) {
    StepSettings& propagate =
        add("propagate " + std::to_string(static_cast<int>(form)), UpdateRule::adam);
    propagate.on_nonfinite = OnNonfinite::propagate;
    propagate.hyper.norm = form;
  }
  add("adamw with gaps", UpdateRule::adamw).missing_grad = MissingGrad::skip;
  StepSettings& unused = add("sgd momentum with gaps", UpdateRule::sgd);
  unused.missing_grad = MissingGrad::skip;
  unused.hyper.momentum = 0.9;
  add("stochastic", UpdateRule::adamw).param_rounding = ParamRounding::stochastic;
  StepSettings& everything = add("everything", UpdateRule::sgd);
  everything.hyper.momentum = 0.5;
  everything.hyper.nesterov = true;
  everything.hyper.norm = NormForm::one;
  everything.hyper.max_norm = 300;
  everything.hyper.clip_value = 0.02;
  everything.loss_reduction = LossReduction::tokens;
  everything.on_nonfinite = OnNonfinite::propagate;
  everything.missing_grad = MissingGrad::skip;
  everything.param_rounding = ParamRounding::stochastic;
  add("binned", UpdateRule::adamw).grad_sum = GradSum::binned;
  return all;
}

void check_all_settings(int stage) {
  std::size_t turn = 0;
  for (const Named& named : all_settings()) {
    for (const int world_size : {1, 3, 8}) {
      World world = reference_world(stage, {1, world_size},
                                    std::array<std::int64_t, 4>{4, 1, 3, 7}[turn % 4]);
      StepSettings& settings = world.setup;
      const StepSettings shared = std::exchange(settings, named.settings);
      settings.micro_batches = shared.micro_batches;
      settings.scaler = shared.scaler;
      settings.seed = shared.seed;
      world.setup.grad_dtype =
          std::array<DType, 3>{DType::fp32, DType::bf16, DType::fp16}[turn % 3];
      world.shards =
          World::contract_map(std::array<std::int64_t, 3>{1024, 4096, 1 << 20}[turn % 3]);
      check_against_dense(world, named.name);
      ++turn;
    }
  }
}

/// Text of the Error that a call throws, "" if it throws none.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Bits of all state that survives a step.
std::vector<std::uint64_t> fingerprint(DistributedOptimizer& optimizer) {
  std::vector<std::uint64_t> result;
  for (const Phase phase : {Phase::update, Phase::cast, Phase::gather}) {
    for (const ExposedBuffer& buffer : optimizer.exposed(phase)) {
      for (std::int64_t i = 0; i < buffer.view.numel; ++i)
        result.push_back(element_bits(buffer.view, i));
    }
  }
  return result;
}

/// The step with the overflow throws under the policy error and changes nothing. Returns "" or the
/// difference.
std::string failing_step(WorldRank& rank, const std::string& dense_message) {
  DistributedOptimizer& optimizer = *rank.optimizer;
  const LossScalerState scaler = optimizer.loss_scaler();
  const std::vector<std::uint64_t> before = fingerprint(optimizer);
  rank.prepare_grads(2);
  const std::string message = message_of([&] { optimizer.step(rank.grads); });
  if (message != dense_message) return "messages differ: " + message + " | " + dense_message;
  if (optimizer.skipped()) return "skipped() is true";
  if (!(optimizer.loss_scaler() == scaler)) return "the loss scaler changed";
  if (optimizer.applied_steps() != 6) return "the step was counted";
  for (const Phase phase : {Phase::norm, Phase::clip, Phase::update, Phase::cast, Phase::gather}) {
    if (message_of([&] { optimizer.run_phase(phase, rank.grads); }).empty())
      return "a later phase ran";
  }
  return fingerprint(optimizer) == before ? "" : "the failing step changed something";
}

}  // namespace

TEST_CASE("distributed: every rule and setting in stage 0 equals the dense optimizer") {
  check_all_settings(0);
}
TEST_CASE("distributed: every rule and setting in stage 1 equals the dense optimizer") {
  check_all_settings(1);
}
TEST_CASE("distributed: every rule and setting in stage 2 equals the dense optimizer") {
  check_all_settings(2);
}

TEST_CASE("distributed: every rule and setting in stage 3 equals the dense optimizer") {
  check_all_settings(3);
}

TEST_CASE("distributed: an overflow under the policy error stops every rank and changes nothing") {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int world_size : {1, 3, 8}) {
      World world = reference_world(stage, {1, world_size}, 4);
      world.shards = World::contract_map(1 << 20);
      world.setup.on_nonfinite = OnNonfinite::error;
      DenseWorld dense(world);
      WorldTruth truth;
      truth.push_back(dense.truth());
      CHECK(dense.step(1));
      truth.push_back(dense.truth());
      const LossScalerState scaler = dense.optimizer.loss_scaler();
      const std::string message = message_of([&] { dense.step(2); });
      CHECK(message.rfind("step 7 has a gradient", 0) ==
            0);  // 5 applied steps were loaded, and one was taken
      CHECK(dense.optimizer.applied_steps() == 6);
      CHECK(dense.optimizer.loss_scaler() == scaler);
      const StepTruth failed = dense.truth();
      truth.push_back(dense.truth());
      CHECK(dense.step(3));
      truth.push_back(dense.truth());
      check_ranks(world, "error", [&](WorldRank& rank) {
        rank.load();
        std::string problem = rank.step(1, truth);
        if (problem.empty()) problem = failing_step(rank, message);
        if (problem.empty()) problem = rank.rest_problem(failed);
        // The ranks are still in step: the same step can be repeated with other gradients.
        return problem.empty() ? rank.step(3, truth) : problem;
      });
    }
  }
}

}  // namespace distributed_settings_test
