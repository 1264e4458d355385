// Every JSON report is what verification/report/report.schema.json says, and the schema says enough.

#include <doctest.h>

#include "tests/verification/cli/cli_support.hpp"
#include "tests/verification/cli/json_schema.hpp"
#include "verification/cases/run_report.hpp"

namespace {

using namespace zeroproof::tests;
using namespace zeroproof::verification;
using Json = nlohmann::json;

const JsonSchema& schema() {
  static const JsonSchema schema(
      Json::parse(read_file(source_folder() + "/verification/report/report.schema.json")));
  return schema;
}

/// The report of a run of the command line, whatever its verdict.
Json report_of(const std::string& flags, const std::string& program = "zeroproof") {
  const TemporaryFolder folder;
  const std::string file = folder.file("report.json");
  run_cli("verify " + flags + " --report " + quoted("json:" + file), program);
  return Json::parse(read_file(file));
}

/// Places in a report where a member is taken away, added, or given another type: each has to be noticed.
void expect_strict(const Json& report, const Json::json_pointer& at) {
  const Json& object = report.at(at);
  for (const auto& [name, value] : object.items()) {
    const std::string place = (at / name).to_string();
    CAPTURE(place);
    Json less = report;
    less.at(at).erase(name);
    // only a process that judges for itself has a self-test
    if (name != "self_test") CHECK_FALSE(schema().complaint(less).empty());
    Json other = report;
    other.at(at)[name] = value.is_array() ? Json("text") : Json::array();
    CHECK_FALSE(schema().complaint(other).empty());
  }
  Json more = report;
  more.at(at)["unheard_of"] = 1;
  CHECK_FALSE(schema().complaint(more).empty());
}

}  // namespace

TEST_CASE("a report of a run with clip groups has their norms, and is what its schema says") {
  const Json report =
      report_of("byte_gpt_tiny/adamw+clip_groups:two/host/stage1/self/fp16/lockstep/bucket:4096/omp:1");
  CHECK(schema().complaint(report) == "");
  const Json& step = report.at("training").at(0).at("steps").at(0);
  REQUIRE(step.at("clip_groups").size() == 1);
  CHECK(step.at("clip_groups").at(0).at("name") == "up");
  CHECK(step.at("clip_groups").at(0).at("grad_norm") < step.at("grad_norm"));
  CHECK(step.at("clip_groups").at(0).at("clip_coef") < 1);
  CHECK(report.at("training")
            .at(0)
            .at("steps")
            .at(2)
            .at("clip_groups")
            .at(0)
            .at("grad_norm")
            .is_null());  // skipped
  expect_strict(report, Json::json_pointer("/training/0/steps/0/clip_groups/0"));
}

TEST_CASE("a report of every suite, with a failure of each kind, is what its schema says") {
  const Json training = report_of(
      "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1 --steps 2 --fault "
      "decay-after-update",
      "zeroproof-faults");
  CHECK(schema().complaint(training) == "");
  REQUIRE(training.at("cases").at(0).at("divergence").is_object());
  for (const char* place :
       {"", "/cases/0", "/cases/0/divergence", "/cases/0/training", "/cases/0/training/timing",
        "/cases/0/training/phases/0", "/cases/0/ulps", "/summary", "/input", "/training/0",
        "/training/0/steps/0", "/capabilities/compiler"}) {
    expect_strict(training, Json::json_pointer(place));
  }
  const Json skipped =
      report_of("byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1 --steps 3");
  CHECK(schema().complaint(skipped) == "");
  for (const char* place : {"/cases/0/training/skips/0", "/cases/0/training/skips/0/not_finite/0"}) {
    expect_strict(skipped, Json::json_pointer(place));
  }
  const Json bytes =
      report_of("byte_gpt_tiny/adamw/host/stage1/threads:2/bf16/lockstep/bucket:4096/omp:1 --steps 2");
  CHECK(schema().complaint(bytes) == "");
  for (const char* place : {"/cases/0/training/bytes/0", "/cases/0/training/bytes/0/peak",
                            "/cases/0/training/bytes/0/memory/0", "/cases/0/training/bytes/0/sent/0"}) {
    expect_strict(bytes, Json::json_pointer(place));
  }
  const Json limbs = report_of(
      "byte_gpt_tiny/adamw/host/stage0/threads:3/fp16/lockstep/bucket:4096/omp:2 --fault "
      "replicated-counted-per-rank",
      "zeroproof-faults");
  CHECK(schema().complaint(limbs) == "");
  CHECK(limbs.at("cases").at(0).at("divergence").at("word").get<std::string>().rfind("limb ", 0) == 0);
  const Json operation = report_of(
      "op/adamw_update/host/x86-64/fill:training --fault eps-under-bias-correction", "zeroproof-faults");
  CHECK(schema().complaint(operation) == "");
  CHECK_FALSE(operation.at("cases").at(0).at("divergence").at("inputs").empty());
  CHECK(schema().complaint(report_of("lbfgs/rosenbrock/none/self/contract controls/swapped-sums")) == "");
  CHECK(schema().complaint(Json::parse(to_json({}))) == "");
}

TEST_CASE("numbers and names that no report has") {
  const Json empty = Json::parse(to_json({}));
  const auto complaint_with = [&](const char* at, const Json& value) {
    Json wrong = empty;
    wrong[Json::json_pointer(at)] = value;
    return schema().complaint(wrong);
  };
  CHECK(complaint_with("/schema", "zeroproof-report/1") == "report.schema is not \"zeroproof-report/2\"");
  CHECK(complaint_with("/summary/pass", -1) == "report.summary.pass is below 0");
  CHECK(complaint_with("/summary/pass", 1.5) == "report.summary.pass is no \"integer\"");
  CHECK(complaint_with("/contract", 0) == "report.contract is below 1");
  CHECK(complaint_with("/cases/0", Json::object()).find("report.cases[0] lacks") == 0);
}
