// Every setting in some worlds.

#include "tests/reference/pair_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

struct Named {
  std::string name;
  Settings settings;
};

/// Every rule and every setting, alone and together.
std::vector<Named> all_settings() {
  std::vector<Named> all;
  const auto add = [&](const std::string& name, UpdateRule rule) -> Settings& {
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
  for (const NormForm form : {NormForm::exact, NormForm::inf, NormForm::one}) {
    add("norm form " + std::to_string(static_cast<int>(form)), UpdateRule::adamw).hyper.norm = form;
  }
  OptimizerHyper& by_value = add("clip by value alone", UpdateRule::sgd).hyper;
  by_value.max_norm.reset();
  by_value.clip_value = 0.75;
  add("clip by both", UpdateRule::adamw).hyper.clip_value = 0.01;
  add("tokens", UpdateRule::adamw).loss_reduction = LossReduction::tokens;
  for (const NormForm form : {NormForm::chunk1024, NormForm::exact, NormForm::inf, NormForm::one}) {
    Settings& propagate = add("propagate " + std::to_string(static_cast<int>(form)), UpdateRule::adam);
    propagate.on_nonfinite = OnNonfinite::propagate;
    propagate.hyper.norm = form;
  }
  add("adamw with gaps", UpdateRule::adamw).missing_grad = MissingGrad::skip;
  Settings& resting = add("sgd momentum with gaps", UpdateRule::sgd);
  resting.missing_grad = MissingGrad::skip;
  resting.hyper.momentum = 0.9;
  add("stochastic", UpdateRule::adamw).param_rounding = ParamRounding::stochastic;
  Settings& everything = add("everything", UpdateRule::sgd);
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
      const std::int64_t bucket_numel = std::array<std::int64_t, 3>{1024, 4096, 1 << 20}[turn % 3];
      const std::int64_t micro_batches = std::array<std::int64_t, 4>{4, 1, 3, 7}[turn % 4];
      const DType leaf = std::array<DType, 3>{DType::fp32, DType::bf16, DType::fp16}[turn % 3];
      check_case({stage, world_size, bucket_numel, micro_batches, leaf, DType::bf16}, named.settings,
                 named.name);
      ++turn;
    }
  }
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
  Settings settings{usual_hyper(), {}};
  settings.on_nonfinite = OnNonfinite::error;
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int world_size : {1, 3, 8}) {
      check_ranks({stage, world_size, 1 << 20, 4}, settings, "error", [](Pair& pair) {
        std::string problem = pair.step(1);
        const std::vector<std::uint32_t> before = pair.fingerprint();
        if (problem.empty()) problem = pair.failing_step();
        if (problem.empty() && pair.fingerprint() != before) problem = "the failing step changed something";
        // The ranks are still together: the same step can be tried with other leaves.
        if (problem.empty()) problem = pair.step(3);
        return problem;
      });
    }
  }
}
