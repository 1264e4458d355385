// The verdict on an optimizer that is not L-BFGS: the first place, and no difference passes.

#include <doctest.h>

#include <limits>

#include "common/comm/self.hpp"
#include "tests/verification/training/lbfgs/lbfgs_support.hpp"
#include "tests/verification/training/lbfgs/wrong_lbfgs.hpp"
#include "verification/training/lbfgs/judge.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// rosenbrock/none on three ranks, of which the second owns elements 0 to 2 and 2048.
Result judged(const LbfgsImplementation& candidate) {
  const LbfgsCaseSpec spec = lbfgs_cases("lbfgs/rosenbrock/none/threads:3/contract").front();
  const LbfgsRunOptions options = tiny_options();
  const auto problem = make_problem(*spec.recipe, options.config);
  return judge_lbfgs(spec, *problem, true_trajectory(*spec.recipe, *problem), candidate, options);
}

/// The verdict of a case whose production optimizer has one fault.
Divergence place_of(const Wrong& wrong) {
  const Result result = judged(wrong_lbfgs(wrong));
  CAPTURE(result.reason);
  CHECK(result.status == Status::fail);
  CHECK(result.differing > 0);
  REQUIRE(result.divergence.has_value());
  return *result.divergence;
}

}  // namespace

TEST_CASE("L-BFGS judge: a wrong optimizer is named at its step, rank, buffer and element") {
  Wrong wrong;
  wrong.rank = 1;
  wrong.step = 2;
  wrong.buffer = "steps[1]";
  Divergence d = place_of(wrong);
  CHECK(d.step == 2);
  CHECK_FALSE(d.phase.has_value());
  CHECK(d.rank == 1);
  CHECK(d.buffer == "steps[1]");
  CHECK(d.parameter == "a");
  CHECK(d.coordinates == "[2]");
  CHECK(d.global_index == 2);
  CHECK(d.last_global_index == 2);
  CHECK(d.differing == 1);
  CHECK(d.compared == 4);
  CHECK(d.reference_value != d.candidate_value);

  for (const char* buffer : {"master", "grad_before", "move", "grad_changes[0]", "steps[0]"}) {
    wrong.buffer = buffer;
    d = place_of(wrong);
    CHECK(d.buffer == buffer);
    CHECK(d.global_index == 2);
  }
  for (const char* buffer :
       {"rho[1]", "h", "pending", "started", "iterations", "evaluations", "num_pairs", "report.gtd",
        "report.loss", "report.first_loss", "report.max_abs_grad", "report.step_length",
        "report.end", "report.iterations", "report.evaluations", "report.pairs_stored",
        "report.pairs_skipped"}) {
    wrong.buffer = buffer;
    d = place_of(wrong);
    CHECK(d.step == 2);
    CHECK(d.rank == 1);
    CHECK(d.buffer == buffer);
    CHECK(d.global_index == -1);
  }
}

TEST_CASE("L-BFGS judge: an evaluation elsewhere, one too many, one too few") {
  Wrong wrong;
  wrong.step = 3;
  wrong.rank = 2;
  wrong.buffer = "point[2]";
  const Divergence elsewhere = place_of(wrong);
  CHECK(elsewhere.step == 3);
  CHECK(elsewhere.rank == 2);
  CHECK(elsewhere.buffer == "point[2]");
  CHECK(elsewhere.parameter == "b");
  CHECK(elsewhere.global_index == 1024);
  wrong.buffer = "one more";
  const Divergence more = place_of(wrong);
  CHECK(more.step == 3);
  CHECK(more.rank == 0);  // the ranks evaluate together
  CHECK(more.buffer == "point[5]");
  CHECK(more.what.find("the reference does not have") != std::string::npos);
}

TEST_CASE("L-BFGS judge: state lost by a load is reported before the next step") {
  Wrong wrong;
  wrong.rank = 1;
  wrong.step = 2;
  wrong.buffer = "rho[0]";
  wrong.on_load = true;
  const Divergence d = place_of(wrong);
  CHECK(d.step == 2);
  CHECK(d.buffer == "rho[0]");
  CHECK(d.what.find("loaded again") != std::string::npos);
}

TEST_CASE("L-BFGS judge: NaN is a difference unless both are NaN") {
  Wrong wrong;
  wrong.rank = 1;
  wrong.step = 1;
  wrong.value = Wrong::Value::nan;
  for (const char* buffer :
       {"master", "steps[0]", "move", "rho[0]", "h", "report.gtd", "report.loss"}) {
    wrong.buffer = buffer;
    const Divergence d = place_of(wrong);
    CHECK(d.buffer == buffer);
    CHECK(d.candidate_value.find("nan") != std::string::npos);
  }

  const ShardMap shards(rosenbrock_layout().padded_numel(), 1, 2048);
  const auto alone = make_self_communicator();
  LbfgsSetup place;
  place.layout = &rosenbrock_layout();
  place.shards = &shards;
  place.comm = alone.get();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> nans(4096, nan);
  const std::vector<float> others(4096, -nan);  // another sign
  const std::vector<float> zeros(4096);
  SavedStep truth;
  truth.evaluations.push_back({nans, nans, std::numeric_limits<double>::quiet_NaN()});
  LbfgsJudge same(place, "differs");
  same.begin_step(1, truth);
  same.evaluation(others, -truth.evaluations[0].loss, others);
  CHECK_FALSE(same.divergence().has_value());
  CHECK(same.compared() == 2 * 1046 + 1);
  LbfgsJudge number(place, "differs");
  number.begin_step(1, truth);
  number.evaluation(others, 0, zeros);
  REQUIRE(number.divergence().has_value());
  CHECK(number.divergence()->buffer == "loss[0]");
  CHECK(number.differing() == 1047);
}

TEST_CASE("L-BFGS judge: a result of another size than the shard is a difference") {
  Wrong wrong;
  wrong.rank = 1;
  wrong.step = 1;
  wrong.buffer = "master";
  wrong.value = Wrong::Value::shorter;
  CHECK(place_of(wrong).what.find("elements, and the shard") != std::string::npos);
}

TEST_CASE("L-BFGS judge: errors of ranks, and errors after a difference") {
  Wrong wrong;
  wrong.rank = 1;
  wrong.step = 2;
  wrong.buffer = "throws";
  const Result thrown = judged(wrong_lbfgs(wrong));
  CHECK(thrown.status == Status::error);
  CHECK(thrown.reason.find("planted") != std::string::npos);
  wrong.buffer = "point[1] then throws";
  const Result both = judged(wrong_lbfgs(wrong));
  CHECK(both.status == Status::fail);
  REQUIRE(both.divergence.has_value());
  CHECK(both.divergence->buffer == "point[1]");
  CHECK(both.reason.find("(then: ") != std::string::npos);
}
