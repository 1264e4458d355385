// verify --bytes: bytes that ranks held and sent, next to the prediction.

#include <doctest.h>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/training/bytes_table.hpp"

namespace bytes_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;
using Json = nlohmann::json;

void expect_as_predicted(const Json& planned) {
  CHECK(planned.at("measured") == planned.at("predicted"));
}

/// Checks every rank of a case; returns the bytes they sent.
std::int64_t expect_planned_case(const Json& of_case) {
  CAPTURE(of_case.at("id").get<std::string>());
  const Json& ranks = of_case.at("training").at("bytes");
  CHECK_FALSE(ranks.empty());
  std::int64_t sent = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    CHECK(ranks[r].at("rank") == r);
    expect_as_predicted(ranks[r].at("peak"));
    CHECK(ranks[r].at("memory").size() == 8);
    for (const Json& of : ranks[r].at("memory")) expect_as_predicted(of.at("bytes"));
    for (const Json& wire : ranks[r].at("sent")) {
      for (const char* what : {"calls", "messages", "bytes"}) expect_as_predicted(wire.at(what));
      sent += wire.at("bytes").at("measured").get<std::int64_t>();
    }
  }
  return sent;
}

Json cases_of(const std::string& flags) {
  const TemporaryFolder folder;
  const std::string file = folder.file("report.json");
  CHECK(run_cli("verify " + flags + " --report " + quoted("json:" + file)).exit_code == 0);
  return Json::parse(read_file(file)).at("cases");
}

}  // namespace

TEST_CASE(
    "bytes: every rank of every stage holds and sends the predicted bytes, with and without a "
    "skip") {
  const Json cases = cases_of(
      "byte_gpt_tiny --recipe adamw --dtype fp16 --impl host,host-fused --world self,threads:3 "
      "--stage "
      "0,1,2,3 --windows off");
  CHECK(cases.size() == 16);
  for (const Json& one : cases) {
    const bool alone = one.at("training").at("world") == "self";
    CHECK((expect_planned_case(one) == 0) == alone);
  }
}

TEST_CASE("bytes: grids, instances and windows are predicted too") {
  for (const char* flags : {"byte_gpt_tiny --recipe adamw --dtype bf16 --impl host --world "
                            "threads:6 --stage 2 --instances 2",
                            "byte_gpt_tiny --recipe adamw --dtype bf16 --impl host --world "
                            "threads:4 --stage 1 --windows params",
                            "byte_gpt_tiny --recipe adamw-groups --dtype bf16 --impl "
                            "host,host-fused --world threads:3 --stage "
                            "0,2 "
                            "--offload 0.4 --offload-order flat,tensors --offload-place host,file "
                            "--offload-grads off,on",
                            "byte_gpt --recipe sgd --dtype bf16 --impl host --world threads:8 "
                            "--stage 1 --grid 2x2x2 --steps 2 "
                            "--micro-batches 2"}) {
    CAPTURE(flags);
    for (const Json& one : cases_of(flags)) expect_planned_case(one);
  }
}

TEST_CASE("bytes: over several hosts messages are predicted, and windows have no bytes") {
  const std::string hosts =
      "byte_gpt_tiny --recipe adamw --dtype bf16 --impl host --world threads:1+2 --stage 0,1,2,3 ";
  for (const Json& one : cases_of(hosts + "--windows off")) expect_planned_case(one);
  for (const Json& one : cases_of(hosts + "--windows on,params"))
    CHECK(one.at("training").at("bytes").empty());
}

TEST_CASE("bytes: the table is printed on request, and counting begins with the second step") {
  const std::string one =
      "verify byte_gpt_tiny --recipe adamw --dtype bf16 --impl host --world threads:2 --stage 2 "
      "--windows off";
  CHECK(run_cli(one).out.find("predicted") == std::string::npos);
  const CliResult table = run_cli(one + " --bytes");
  CHECK(table.exit_code == 0);
  CHECK(widest(table.out) <= 100);
  for (const char* part : {"\nbytes of byte_gpt_tiny/adamw/host/stage2/", "  0     master",
                           "  1     master", "  shards    all_to_all", "as predicted"}) {
    CHECK_MESSAGE(table.out.find(part) != std::string::npos, part);
  }
  CHECK(table.out.find("DIFFERS") == std::string::npos);
  CHECK(run_cli(one + " --bytes --steps 1").out.find("bytes of") == std::string::npos);
}

TEST_CASE("bytes: a number other than the predicted one is reported") {
  RunReport report;
  Result& result = report.results.emplace_back();
  result.id = "some/case";
  RankBytes rank;
  rank.peak = {12, 12};
  rank.memory = {{"master", {12, 12}}, {"grad", {0, 0}}};
  rank.sent = {{"shards", "all_gather", {1, 1}, {3, 3}, {40, 44}}};
  result.training.emplace().bytes = {rank};
  const std::string text = bytes_table(report, false);
  CHECK(text.find("master                    12              12  as predicted") !=
        std::string::npos);
  CHECK(text.find("40            44  DIFFERS") != std::string::npos);
  CHECK(text.find("grad ") == std::string::npos);  // a class that no rank has
}

}  // namespace bytes_test
