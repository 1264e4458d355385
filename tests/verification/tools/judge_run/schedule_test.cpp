// judge-run --schedule: recorded learning rates, right and wrong.

#include <doctest.h>

#include <algorithm>
#include <fstream>

#include "common/base/error.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/verification/tools/judge_run/simulated_run.hpp"
#include "verification/tools/judge_run/judge_run.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;
using namespace zeroproof::tests;

/// Warm-up of two updates to the full rate, and a linear decay to 0 at update 9.
const char* const warm_up =
    "[optimizer]\nlr = 0.01\n"
    "[schedule]\nwarmup = 2\ndecay = \"linear\"\ndecay_end = 9\n"
    "[[param_group]]\nname = \"small\"\nvectors = true\nlr = 0.003\n";
const std::vector<double> warm_rates = {0.5, 1, 6.0 / 7, 5.0 / 7, 4.0 / 7};

RunReport judged_by(const Simulation& run, const std::string& settings) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("run"));
  run.write(folder.file("run"));
  std::ofstream(folder.file("s.toml")) << settings;
  JudgeRunSettings judged;
  judged.folder = folder.file("run");
  judged.schedule = folder.file("s.toml");
  return judge_run(judged);
}

std::string refusal(const Simulation& run, const std::string& settings) {
  try {
    judged_by(run, settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Simulation scheduled() {
  Simulation run;
  run.steps = 4;
  run.parameters = {{"wte.weight", {7, 5}, 0}, {"h.0.bias", {3}, 1}, {"head.weight", {61, 1}, 0}};
  run.rates = warm_rates;
  return run;
}

const Result& rate_of(const RunReport& report, std::int64_t step) {
  char id[64];
  std::snprintf(id, sizeof(id), "judge-run/rate/step%06d", static_cast<int>(step));
  const auto found = std::ranges::find(report.results, id, &Result::id);
  REQUIRE(found != report.results.end());
  return *found;
}

}  // namespace

TEST_CASE("schedule: recorded rates of a right training are those of the schedule") {
  Simulation run = scheduled();
  const RunReport report = judged_by(run, warm_up);
  for (int step = 1; step <= 4; ++step) {
    CAPTURE(rate_of(report, step).reason);
    CHECK(rate_of(report, step).status == Status::pass);
    CHECK(rate_of(report, step).compared == 4);  // two groups of two ranks
  }
  for (const Result& result : report.results) CHECK(!failed(result.status));
  // A skipped step has no rate, and the next one has that of the next update.
  run.overflows = {2};
  const RunReport skips = judged_by(run, warm_up);
  CHECK(rate_of(skips, 2).status == Status::skipped);
  CHECK(rate_of(skips, 3).status == Status::pass);
  // The nearest fp32 numbers of the rates are right too.
  run.overflows.clear();
  for (double& rate : run.rates) rate *= 1 + 0x1p-25;
  CHECK(rate_of(judged_by(run, warm_up), 3).status == Status::pass);
  for (double& rate : run.rates) rate *= 1 + 0x1p-22;
  CHECK(rate_of(judged_by(run, warm_up), 3).status == Status::fail);
}

TEST_CASE("schedule: a mismatch names step, group, both rates and the likely cause") {
  const auto wrong = [](const std::vector<double>& rates, std::int64_t step,
                        const std::string& hint, const std::set<int>& overflows = {},
                        int world = 2) {
    Simulation run = scheduled();
    run.rates = rates;
    run.overflows = overflows;
    run.world = world;
    const RunReport report = judged_by(run, warm_up);
    const Result& result = rate_of(report, step);
    CAPTURE(result.reason);
    REQUIRE(result.status == Status::fail);
    CHECK(result.divergence->step == step);
    CHECK(result.divergence->buffer == "lr of group 0");
    CHECK(result.divergence->what.find("is not the rate of update ") == 0);
    CHECK(result.divergence->hint == hint);
    CHECK(rate_of(report, step == 1 ? 2 : 1).suite == "judge-run");
    return result;
  };
  const Result behind = wrong({0.5, 0.5, 1, 6.0 / 7}, 3, "as if the schedule were one step behind");
  CHECK(behind.divergence->candidate_value == "0.01");
  CHECK(behind.divergence->reference_value == "0.00857142857");
  wrong({1, 6.0 / 7, 5.0 / 7, 4.0 / 7}, 3, "as if the schedule were one step ahead");
  wrong({0.5, 1, 1, 1}, 4, "as if the rate were constant");
  wrong({0.5, 1, 6.0 / 7, 0.5}, 4, "as if the schedule had begun again");
  wrong({0.5, 5.0 / 7, 3.0 / 7, 1.0 / 7}, 3,
        "as if the schedule were advanced once per rank, 2 times a step");
  wrong({0.5, 1, 0.123, 1}, 3, "");
  // Steps 1 and 2 are skipped: update 1 is step 3.
  wrong({6.0 / 7, 5.0 / 7}, 3, "as if the schedule counted skipped steps too, 3 in all", {1, 2});
}

TEST_CASE("schedule: settings that do not apply are refused in one sentence") {
  const Simulation run = scheduled();
  const auto refused = [&](const std::string& settings, const std::string& says) {
    const std::string text = refusal(run, settings);
    CAPTURE(text);
    CHECK(text.find(says) != std::string::npos);
    CHECK(text.find('\n') == std::string::npos);
  };
  refused("", "has no optimizer.lr");
  refused("[schedule]\nwarmup = 2\n", "has no optimizer.lr");
  refused("[optimizer]\nlr = 0.01\nbeta1 = 0.9\n",
          "sets optimizer.beta1 (no learning rate depends on it)");
  refused("[optimizer]\nlr = 0.01\n[run]\nsteps = 4\n",
          "sets run.steps (no learning rate depends on it)");
  refused("[optimizer]\nlr = -1\n", "optimizer.lr is -1");
  refused("[optimizer]\nlr = 0.01\n[schedule]\nwarmpu = 2\n", "did you mean schedule.warmup?");
  refused("[optimizer]\nlr = 0.01\n[[param_group]]\nname = \"a\"\nmatch = [\"nothing\"]\n",
          "param group 'a'");
  refused("[schedule]\ndecay = \"table\"\nrates = [0.005, 0.01]\n",
          "has 2 rates, and the recording has update 3");
  refused("[optimizer]\nlr = 0.01\n[schedule]\ndecay = \"table\"\nrates = [0.005]\n",
          "has optimizer.lr and schedule.rates");
  refused("[optimizer\n", "not valid TOML");
}
