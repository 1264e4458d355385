// L-BFGS cases: all pass, run only on request, and an expectation that proves little is mistrusted.

#include <doctest.h>

#include <cmath>
#include <set>

#include "common/base/error.hpp"
#include "common/comm/self.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/training/lbfgs/lbfgs_support.hpp"
#include "verification/cases/id_pattern.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/training/lbfgs/byte_gpt_problem.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

std::string refusal(const std::string& pattern) {
  try {
    lbfgs_cases(pattern);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("L-BFGS cases: every one passes, and executes the branches of its recipe") {
  const std::vector<LbfgsCaseSpec> cases = lbfgs_cases("lbfgs/*");
  std::set<std::string> worlds;
  std::set<std::string> ends;
  for (const LbfgsCaseSpec& spec : cases) {
    worlds.insert(spec.world.id() + "/" + std::string(name(spec.layout)));
    for (const LbfgsEnd end : spec.recipe->ends) ends.insert(std::string(name(end)));
  }
  CHECK(worlds.size() == 7);
  CHECK(ends.size() == 8);  // every reason for the end of a step
  for (const Result& result : run_lbfgs_cases(cases, tiny_options())) {
    CAPTURE(result.id);
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
    CHECK(result.compared > 10'000);
    CHECK(result.differing == 0);
  }
}

TEST_CASE("L-BFGS cases: loss and gradient are the means over byte_gpt's micro-batches") {
  const RunConfig config = tiny_options().config;
  const ByteGptProblem problem(config);
  const Experiment model = lbfgs_experiment(config);
  const auto padded = static_cast<std::size_t>(problem.layout().padded_numel());
  std::vector<float> point = problem.start();
  std::vector<std::vector<float>> leaves;
  double loss = 0;
  for (std::int64_t j = 0; j < config.micro_batches; ++j) {
    const auto numel = static_cast<std::int64_t>(padded);
    leaves.emplace_back(padded);
    loss += model.micro_batch_grad(1, j, {point.data(), DType::fp32, numel}, 0,
                                   {leaves.back().data(), DType::fp32, numel});
  }
  const ShardMap shards(problem.layout().padded_numel(), 1, problem.bucket_numel());
  const auto alone = make_self_communicator();
  LbfgsSetup place;
  place.layout = &problem.layout();
  place.shards = &shards;
  place.comm = alone.get();
  for (const LbfgsImplementation* implementation : {&reference_lbfgs(), &production_lbfgs()}) {
    const auto closure = problem.closure(place, *implementation, 3);
    std::vector<float> grad(padded);
    // Losses are positive: M - 1 additions and a division here, a tree of them there, each within 2^-53 of its result.
    const double roundings = 2 * static_cast<double>(config.micro_batches);
    const double mean = loss / static_cast<double>(config.micro_batches);
    CHECK(std::fabs(closure->evaluate(point, grad) - mean) <= roundings * 0x1p-53 * mean);
    for (const Piece& piece : problem.layout().pieces({{0, problem.layout().padded_numel()}})) {
      for (auto i = static_cast<std::size_t>(piece.global_begin);
           i < static_cast<std::size_t>(piece.global_begin + piece.numel); ++i) {
        double sum = 0;
        double size = 0;
        for (const std::vector<float>& leaf : leaves) {
          sum += leaf[i];
          size += std::fabs(leaf[i]);
        }
        REQUIRE(std::fabs(grad[i] - sum / 7) <=
                0x1p-21 * size / 7);  // 4 roundings of at most the sum of all sizes
      }
    }
  }
}

TEST_CASE("L-BFGS cases: ids") {
  const std::vector<LbfgsCaseSpec> all = lbfgs_cases("lbfgs");
  CHECK(all.size() == 7 * lbfgs_recipes().size());
  CHECK(lbfgs_cases("lbfgs/*").size() == all.size());
  CHECK(lbfgs_cases("lbfgs/").size() == all.size());
  for (const LbfgsCaseSpec& spec : all) {
    const std::vector<LbfgsCaseSpec> again = lbfgs_cases(spec.id());
    REQUIRE(again.size() == 1);
    CHECK(again.front().id() == spec.id());
  }
  CHECK(lbfgs_cases("lbfgs/rosenbrock/nonfinite").size() == 7);  // not nonfinite-trial
  CHECK(lbfgs_cases("lbfgs/rosenbrock/none/threads:2").size() == 3);
  CHECK(lbfgs_cases("lbfgs/rosenbrock/none/threads:5/greedy").front().world.size == 5);
  CHECK(lbfgs_cases("lbfgs/zz*").empty());
  CHECK(lbfgs_cases("lbfgs/rosenbrock/none/self/contract/more").empty());
  CHECK(refusal("lbfgs/byte_gpt").find("did you mean byte_gpt_tiny?") != std::string::npos);
  CHECK(refusal("lbfgs/rosenbrock/armio/self/contract").find("did you mean armijo?") !=
        std::string::npos);
  CHECK(refusal("lbfgs/rosenbrock/none/mpi:2/contract").find("use threads:2") != std::string::npos);
  CHECK(refusal("lbfgs/rosenbrock/none/self/fsdp").find("fsdp2") != std::string::npos);
  CHECK(refusal("lbfgs/rosenbrock/none/threads:0/fsdp2").find("threads:0") != std::string::npos);
}

TEST_CASE("L-BFGS cases: run only on request") {
  VerifyOptions options;
  const auto selected = [&] {
    std::size_t count = 0;
    for (const std::string& id : select_cases(options).ids())
      count += begins_with(id, "lbfgs") ? 1 : 0;
    return count;
  };
  CHECK(selected() == 0);
  options.patterns = {"byte_gpt_tiny", "op/clip", "*"};
  CHECK(selected() == 0);
  options.patterns = {"lbfgs/rosenbrock/none", "lbfgs/*/none/*"};
  CHECK(selected() == 14);  // each once
  CHECK(select_cases(options).size() == 14);
  options.implementations = {Implementation::device};  // there is none
  CHECK(selected() == 0);
  options.implementations = {Implementation::host};
  CHECK(selected() == 14);
  options.gradients = "some.safetensors";
  CHECK_THROWS_AS(select_cases(options), Error);
}

TEST_CASE("L-BFGS cases: a weak expectation is mistrusted, a wrong one blames no candidate") {
  const LbfgsRunOptions options = tiny_options();
  LbfgsRecipe recipe = *lbfgs_cases("lbfgs/rosenbrock/skipped-pair/self/contract").front().recipe;
  LbfgsCaseSpec spec{&recipe, {WorldSpec::Kind::threads, 2}, LayoutKind::contract};
  const auto run = [&] {
    const auto problem = make_problem(recipe, options.config);
    return judge_lbfgs(spec, *problem, true_trajectory(recipe, *problem), production_lbfgs(),
                       options);
  };
  CHECK(run().status == Status::pass);
  recipe.skipped = 2;
  CHECK(run().status == Status::mistrusted);
  recipe.skipped = 0;
  recipe.evicts = true;
  CHECK(run().status == Status::pass);
  recipe.hyper.history_size = 100;
  CHECK(run().reason == "no pair had to be removed");
  recipe.evicts = false;
  recipe.ends[1] = LbfgsEnd::gradient;
  CHECK(run().reason.find("step 2 ends by max_iter, not by gradient") != std::string::npos);
  recipe.ends = {LbfgsEnd::max_iter};
  recipe.hyper.max_iter = 1;
  CHECK(run().reason.find("no pair was stored") != std::string::npos);

  const auto problem = make_problem(recipe, options.config);
  LbfgsTrajectory truth = true_trajectory(recipe, *problem);
  truth.steps[0].evaluations[0].loss += 1;
  const Result wrong = judge_lbfgs(spec, *problem, truth, production_lbfgs(), options);
  CHECK(wrong.status == Status::fail);
  REQUIRE(wrong.divergence.has_value());
  CHECK(wrong.divergence->what ==
        "of the reference over ranks differs from the reference on one rank");
}

TEST_CASE("L-BFGS cases: reports, replay lines and bundles") {
  const TemporaryFolder folder;
  const std::string id = "lbfgs/rosenbrock/failed-search/threads:3/contract";
  const std::string files =
      quoted("text,json:" + folder.file("r.json") + ",junit:" + folder.file("r.xml"));
  const CliResult good = run_cli("verify " + id + " --report " + files);
  CHECK(good.exit_code == 0);
  CHECK(good.out.find("rosenbrock/failed-search") != std::string::npos);
  CHECK(good.out.find("operations:") == std::string::npos);
  const auto json = nlohmann::json::parse(read_file(folder.file("r.json")));
  CHECK(json.at("cases").at(0).at("id") == id);
  CHECK(json.at("cases").at(0).at("divergence").is_null());
  CHECK(read_file(folder.file("r.xml")).find("name=\"" + id + "\"") != std::string::npos);

  const CliResult bad =
      run_cli("verify " + id + " --fault lbfgs-failed-search-keeps-x --save-failing " +
                  quoted(folder.file("bundles")) + " --report " + files,
              "zeroproof-faults");
  CHECK(bad.exit_code == 1);
  CHECK(bad.out.find("first at  step 2  rank 1  buffer master: differs from the reference") !=
        std::string::npos);
  const auto failed = nlohmann::json::parse(read_file(folder.file("r.json"))).at("cases").at(0);
  CHECK(failed.at("divergence").at("phase").is_null());
  CHECK(failed.at("divergence").at("parameter") == "a");
  const std::string replay = failed.at("replay");
  const CliResult again = run_cli(replay.substr(replay.find(" replay ")), "zeroproof-faults");
  CHECK(again.exit_code == 1);
  CHECK(again.out.find("buffer master") != std::string::npos);
  const std::size_t saved = bad.out.find("saved: ");
  REQUIRE(saved != std::string::npos);
  const std::string bundle = bad.out.substr(saved + 7, bad.out.find('\n', saved) - saved - 7);
  CHECK(std::filesystem::exists(bundle + "/text.bin"));
  const CliResult replayed = run_cli("replay " + quoted(bundle), "zeroproof-faults");
  CHECK(replayed.out.find("the same failure") != std::string::npos);

  CHECK(run_cli("list 'lbfgs/*'").out.find(id) != std::string::npos);
  CHECK(run_cli("list").out.find("lbfgs") == std::string::npos);
  CHECK(run_cli("verify lbfgs/zz*").exit_code == 4);
}
