// Updates with powers of beta in fp32 pass where that is accepted, and mistakes do not.

#include <doctest.h>

#include <cmath>
#include <functional>
#include <string>

#include "common/base/float_formats.hpp"
#include "tests/support/user_candidate.hpp"
#include "tests/verification/ops/fp32_powers_adam.hpp"
#include "verification/ops/op_case.hpp"
#include "verification/ops/operations/update_settings.hpp"
#include "verification/report/report_failures.hpp"

namespace fp32_powers_case_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;
using Program = Fp32PowersAdam;

Result judged(const std::string& op, const OpFunction& run, bool fp32_powers = true,
              const std::string& fill = "training") {
  const UserCandidate user(op, run);
  OpRunOptions options;
  options.any_order = true;
  options.fp32_powers = fp32_powers;
  return run_op_cases(op_cases("op/" + op + "/user/one/fill:" + fill, {&user}), options).front();
}

}  // namespace

TEST_CASE("fp32 powers: Adam and AdamW in the order of torch.compile pass only if accepted") {
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::adam}) {
    const std::string op = rule == UpdateRule::adam ? "adam_update" : "adamw_update";
    const Program program{.rule = rule};
    const Result strict = judged(op, program, false);
    CHECK(strict.status == Status::fail);
    CHECK(strict.held_to == "any-order");
    REQUIRE(strict.divergence.has_value());
    CHECK(strict.divergence->hint.find("from a power in fp32") != std::string::npos);
    const Result accepted = judged(op, program);
    CAPTURE(accepted.reason);
    CHECK(accepted.status == Status::pass);
    CHECK(accepted.held_to == "any-order,fp32-powers");
    REQUIRE(accepted.judged.has_value());
    const JudgedBy& by = *accepted.judged;
    MESSAGE(op << ": " << to_string(by) << ", at most " << accepted.worst_ratio);
    CHECK(by.powers == strict.differing);
    CHECK(by.powers > 1000);
    CHECK(by.total() == accepted.compared);
    CHECK(accepted.worst_ratio <= 1);
    CHECK(details_of(accepted).find(" by powers of beta in fp32, ") != std::string::npos);
    CHECK(judged(op, program, true, "special").status == Status::pass);
  }
}

namespace {

void fails(const Program& program) {
  const Result wrong = judged("adamw_update", program);
  CHECK(wrong.status == Status::fail);
  CHECK(wrong.differing > 1000);
}

}  // namespace

TEST_CASE("fp32 powers: 4 ulps, and one pair for all results of a call") {
  for (const int steps : {-3, 3}) {
    CHECK(judged("adamw_update", Program{.steps1 = -steps, .steps2 = steps}).status ==
          Status::pass);
  }
  fails({.steps2 = 5});
  const Result two_pairs = judged("adamw_update", Program{.steps2 = -3, .second_half = 6});
  CHECK(two_pairs.status == Status::fail);
  REQUIRE(two_pairs.divergence.has_value());
  CHECK(two_pairs.divergence->order.find("in no legal order: ") == 0);
}

TEST_CASE("fp32 powers: mistakes stay beyond the bound") {
  fails({.eps_in_root = true});
  fails({.later = 1});
  fails({.corrects = false});
  fails({.beta2_in_bf16 = true});
  fails({.lr_factor = 1.0001});
}

TEST_CASE("nightly: fp32 powers: other mistakes, and mistakes without powers in fp32") {
  fails({.steps2 = -5});
  fails({.steps1 = 200});
  fails({.steps1 = -200});
  fails({.later = -1});
  fails({.lr_factor = 0.9999});
  fails({.old_moment = true});
  const auto with_scalars = [](const auto& change) {
    return judged("adamw_update", [change](OpCall& call) {
      const bool amsgrad = call.variant() % 2 == 1;
      const float sign = call.variant() / 2 % 2 == 1 ? -1.0F : 1.0F;
      StepScalars s = update_settings(call.variant() / 4, {}).scalars;
      change(s);
      for (std::int64_t i = 0; i < call.numel(); ++i) {
        float &p = call.get<float>(1)[i], &m = call.get<float>(2)[i], &v = call.get<float>(3)[i];
        const float g = sign * call.in<float>(0)[i];
        m = s.beta1 * m + s.one_minus_beta1 * g;
        v = s.beta2 * v + s.one_minus_beta2 * (g * g);
        float& largest = call.get<float>(4)[i];
        if (amsgrad) largest = largest >= v ? largest : v;
        if (s.has_decay != 0) p = p - s.lr_weight_decay * p;
        const float x = amsgrad ? largest : v;
        p = p - s.step_size * (m / (std::sqrt(x) / s.sqrt_bias_correction2 + s.eps));
      }
    });
  };
  const Result right = with_scalars([](StepScalars&) {});
  CHECK(right.status == Status::pass);
  CHECK(right.judged->powers == 0);
  for (const Result& wrong :
       {with_scalars([](StepScalars& s) { s.step_size *= 1.0001F; }),
        with_scalars([](StepScalars& s) { s.eps *= 1.001F; }),
        with_scalars([](StepScalars& s) { s.beta2 = to_float(to_bf16(s.beta2)); })})
    CHECK(wrong.status == Status::fail);
}

TEST_CASE("fp32 powers: a single wrong element is the one that is reported") {
  const Result wrong = judged("adamw_update", Program{.wrong_element = 777});
  CHECK(wrong.status == Status::fail);
  REQUIRE(wrong.divergence.has_value());
  CHECK(wrong.divergence->buffer == "master");
  CHECK(wrong.divergence->shard_index == 777);
  CHECK(wrong.divergence->differing == 1);
  CHECK(wrong.differing < 2000);  // one for each of the calls
  CHECK(wrong.judged->powers > 1000);
}

TEST_CASE("fp32 powers: the reference passes by bits, and operations without them are as before") {
  for (const char* op : {"adamw_update", "adam_update_bf16", "lamb_update"}) {
    CAPTURE(op);
    CHECK(find_op(op)->corrects_bias);
    const Result own = judged(op, find_op(op)->host);
    CHECK(own.status == Status::pass);
    CHECK(own.judged->bits == own.compared);
  }
  for (const Op& op : all_ops()) {
    if (op.bounds && op.corrects_bias) CHECK(op.phases == std::vector<Phase>{Phase::update});
    if (op.name.starts_with("sgd") || op.name.starts_with("lion") || !op.bounds)
      CHECK_FALSE(op.corrects_bias);
  }
  const Result clip = judged("clip", find_op("clip")->host);
  CHECK(clip.status == Status::pass);
  CHECK(clip.held_to == "any-order");
}

}  // namespace fp32_powers_case_test
