// The suite of resumed runs: its ids, its refusals, and all of its usual cases pass.

#include "verification/training/resume/resume_case.hpp"

#include <doctest.h>

#include <set>

#include "tests/support/complaint.hpp"
#include "verification/cases/obstacle.hpp"
#include "verification/cases/recipes.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/program/capabilities.hpp"

using namespace zeroproof;
using namespace zeroproof::verification;
using zeroproof_test::complaint;
using zeroproof_test::has;

namespace {

RunReport run(const std::vector<std::string>& patterns,
              const std::function<void(VerifyOptions&)>& change = {}) {
  VerifyOptions options;
  options.patterns = patterns;
  if (change) change(options);
  return run_selection(options, select_cases(options), [](double, const std::string&) {});
}

}  // namespace

TEST_CASE("resume: ids are complete, and every usual id selects its case") {
  const std::vector<ResumeCaseSpec> usual = resume_cases("resume/*");
  CHECK(usual.size() >= 28);
  std::set<std::string> ids;
  for (const ResumeCaseSpec& spec : usual) {
    CHECK(ids.insert(spec.id()).second);
    const std::vector<ResumeCaseSpec> again = resume_cases(spec.id());
    REQUIRE(again.size() == 1);
    CHECK(again.front().id() == spec.id());
  }
  for (const Recipe& recipe : recipes()) {
    CAPTURE(std::string(recipe.name));
    const bool scaled = !recipe.dtypes.empty() && has_scales(recipe.dtypes.front());
    if (scaled && !makes_scales(Implementation::host)) continue;
    CHECK(!resume_cases("resume/" + std::string(recipe.name)).empty());
  }
  const std::string elsewhere = "resume/lion-max/2x1x4:1-to-7:3/fp32/greedy-to-fsdp2/after:5";
  CHECK(ids.count(elsewhere) == 0);
  const ResumeCaseSpec spec = resume_cases(elsewhere).front();
  CHECK(spec.id() == elsewhere);
  CHECK(spec.half(spec.before).world.size == 8);
  CHECK(spec.half(spec.after).world.size == 7);
  CHECK(spec.half(spec.before).place.grid->tp == 4);
  CHECK(spec.half(spec.after).stage == 3);
  CHECK(spec.half(spec.after).implementation == Implementation::host);

  const std::string on_devices =
      "resume/adamw/3:2:host-fused-to-2x1x2:1:device-graph/bf16/fsdp2-to-greedy/after:1028-of-1034";
  const ResumeCaseSpec other = resume_cases(on_devices).front();
  CHECK(other.id() == on_devices);
  CHECK(other.half(other.before).implementation == Implementation::host_fused);
  CHECK(other.half(other.before).mode == Mode::lockstep);
  CHECK(other.half(other.after).implementation == Implementation::device_graph);
  CHECK(other.half(other.after).mode == Mode::whole);
  CHECK(other.last_saved == 1028);
  CHECK(other.steps == 1034);
}

TEST_CASE("resume: impossible cases are refused with an alternative") {
  const auto refused = [](const std::string& id, const std::string& says) {
    const std::string text = complaint([&] { run({id}); });
    CAPTURE(id);
    CAPTURE(text);
    CHECK(has(text, says));
  };
  const std::string end = "/fp16/contract-to-contract/after:3";
  refused("resume/nothing/3:2-to-2:1" + end, "recipe 'nothing' does not exist");
  refused("resume/adamw/3:2" + end, "has no part after the save");
  refused("resume/adamw/3-to-2:1" + end, "'3' in");
  refused("resume/adamw/0:2-to-2:1" + end, "0 ranks in '");
  refused("resume/adamw/65:2-to-2:1" + end, "use 1 to 64");
  refused("resume/adamw/x:2-to-2:1" + end, "process grid 'x'");
  refused("resume/adamw/three:2-to-2:1" + end, "'three'");
  refused("resume/adamw/3:4-to-2:1" + end, "stage 4 does not exist");
  refused("resume/adamw/3:2-to-2:1/fp8/contract-to-contract/after:3", "dtype 'fp8'");
  refused("resume/adamw/3:2-to-2:1/fp16/contract-to-fsdp/after:3", "layout 'fsdp' does not exist");
  refused("resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:0",
          "made after step 1 or later");
  refused("resume/adamw/3:2-to-2:1/fp16/contract-to-contract/at:3", "'at:3'");
  refused("resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:6", "saves after step 6 of 6");
  refused("resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:3-of-3",
          "saves after step 3 of 3");
  refused("resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:3-of-0", "has no steps");
  refused("resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:3-of-x", "'x' in");
  refused("resume/adamw+on_nonfinite:error/3:2-to-2:1" + end, "has on_nonfinite = error");
  refused("resume/adamw/3:2:plugin-to-2:1" + end, "implementation 'plugin' in");
  refused("resume/adamw/3:2:device-grph-to-2:1" + end, "did you mean device-graph?");
  refused("resume/adamw/2x1x2:2-to-2:1/bf16/contract-to-contract/after:3",
          "optimizer.norm is \"chunk1024\" with the process grid 2x1x2");
}

TEST_CASE("resume: the usual cases pass, and compare every step") {
  const RunReport report = run({"resume/*"});
  CHECK(report.results.size() >= 28);
  for (const Result& result : report.results) {
    CAPTURE(result.id);
    CAPTURE(result.reason);
    CHECK(result.status == Status::pass);
    CHECK(result.compared > 100'000);
    CHECK(result.differing == 0);
  }
}

TEST_CASE("resume: a half on an absent device is skipped, with the reason") {
  if (device_answers()) return;
  const RunReport report =
      run({"resume/adamw/3:2-to-2:1:device/fp16/contract-to-contract/after:3"});
  REQUIRE(report.results.size() == 1);
  CHECK(report.results.front().status == Status::skipped);
  CHECK(report.results.front().side == "host-to-device");
  CHECK_FALSE(report.results.front().reason.empty());
}

TEST_CASE("resume: a run that makes no step after its checkpoint proves nothing") {
  // The last step overflows.
  const RunReport report = run({"resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:2"},
                               [](VerifyOptions& options) {
                                 options.overrides = [](RunConfig& config) { config.steps = 3; };
                               });
  REQUIRE(report.results.size() == 1);
  CHECK(report.results.front().status == Status::mistrusted);
  CHECK(has(report.results.front().reason, "no step was applied after"));
}

TEST_CASE("resume: a run that this program cannot make is skipped, with the reason") {
  const RunReport report = run({"resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:3"},
                               [](VerifyOptions& options) { options.fault = "do-nothing"; });
  REQUIRE(report.results.size() == 1);
  CHECK(report.results.front().status == Status::skipped);
  CHECK(has(report.results.front().reason, "zeroproof-faults"));
}
