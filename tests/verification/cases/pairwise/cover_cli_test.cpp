// verify --cover and list --coverage, by their command lines.

#include <doctest.h>

#include <set>
#include <string>

#include "tests/verification/cli/cli_support.hpp"

namespace {

using namespace zeroproof::tests;
using Json = nlohmann::json;

std::set<std::string> listed(const std::string& flags) {
  const CliResult result = run_cli("list " + flags);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const std::vector<std::string> lines = zeroproof::verification::lines_of(result.out);
  return {lines.begin(), lines.end()};
}

/// Every row passes; a mistrusted one would prove little. Returns the ids of the rows.
std::set<std::string> check_rows(const std::string& flags) {
  const TemporaryFolder folder;
  const std::string file = folder.file("report.json");
  const CliResult result =
      run_cli("verify " + flags + " --strict --report text," + quoted("json:" + file));
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  const Json report = Json::parse(read_file(file));
  CHECK(report.at("summary").at("pass") == report.at("cases").size());
  CHECK(widest(result.out.substr(0, result.out.find("report: "))) <= 100);
  MESSAGE(report.at("cases").size() << " rows, " << report.at("seconds").get<double>() << " s");
  std::set<std::string> ids;
  for (const Json& row : report.at("cases")) ids.insert(row.at("id").get<std::string>());
  CHECK(ids.size() == report.at("cases").size());
  return ids;
}

}  // namespace

TEST_CASE("cover: every value of every setting runs and passes, and its id reproduces a row") {
  const std::set<std::string> ids = check_rows("--cover values");
  const CliResult result = run_cli("replay " + quoted(*ids.begin()) + " --report text");
  CAPTURE(result.out);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("1 pass, 0 fail") != std::string::npos);
}

TEST_CASE(
    "nightly: cover: all pairs of values and triples of groups run and pass, in three arrays") {
  for (const char* seed : {"1", "2", "3"})
    check_rows(std::string("--cover triples --cover-seed ") + seed);
}

TEST_CASE("nightly: cover: slices are the array, each row once") {
  const std::set<std::string> all = listed("--cover values");
  std::set<std::string> joined;
  std::size_t count = 0;
  for (const char* slice : {"1/3", "2/3", "3/3"}) {
    const std::set<std::string> part = listed(std::string("--cover values --slice ") + slice);
    count += part.size();
    joined.insert(part.begin(), part.end());
  }
  CHECK(joined == all);
  CHECK(count == all.size());
  CHECK(check_rows("--cover values") == all);
  CHECK(listed("--cover values byte_gpt_tiny") == all);
  CHECK(listed("--cover values --cover-seed 2") != all);
  expect_refusal(run_cli("verify --cover values --slice 900/1000"), "has none of the");
  const std::set<std::string> fused = listed("--cover values --impl host-fused --slice 2/4");
  CHECK(fused.begin()->find("/host-fused/") != std::string::npos);
}

TEST_CASE("cover: unusable flags are refused") {
  expect_refusal(run_cli("verify --cover nope"), "use values, pairs or triples");
  expect_refusal(run_cli("verify --cover pairs --slice 5/4"), "--slice is '5/4'");
  expect_refusal(run_cli("verify --cover pairs --slice 1"), "--slice is '1'");
  expect_refusal(run_cli("verify --cover pairs --slice 0/2"), "--slice is '0/2'");
  expect_refusal(run_cli("verify --cover pairs --cover-seed one"), "--cover-seed is 'one'");
  expect_refusal(run_cli("verify --cover pairs --stage 2"), "--stage does not apply");
  expect_refusal(run_cli("verify --cover pairs --recipe sgd"), "--recipe does not apply");
  expect_refusal(run_cli("verify --cover pairs --norm exact"), "--norm does not apply");
  expect_refusal(run_cli("verify --cover pairs --config nowhere.toml"), "--config does not apply");
  expect_refusal(run_cli("verify --cover pairs nope"), "--cover was given with the pattern 'nope'");
  expect_refusal(run_cli("verify --cover pairs byte_gpt byte_gpt_tiny"),
                 "--cover was given with the pattern");
  expect_refusal(run_cli("verify --cover pairs 'op/*'"), "--cover does not apply to 'op/*'");
  expect_refusal(run_cli("verify byte_gpt_tiny --slice 1/4"),
                 "--slice does not apply to 'byte_gpt_tiny'");
  expect_refusal(run_cli("verify byte_gpt_tiny --cover-seed 2"), "--cover-seed does not apply");
  expect_refusal(run_cli("verify byte_gpt_tiny --recipe adamw+amsgrat:on"),
                 "did you mean amsgrad?");
  expect_refusal(run_cli("list --json somewhere.json"), "--json was given without --coverage");
}

TEST_CASE("pairwise report: omitted pairs are named, in 100 columns and in JSON") {
  const TemporaryFolder folder;
  const std::string file = folder.file("coverage.json");
  const CliResult result = run_cli("list byte_gpt_tiny --coverage --json " + quoted(file));
  CAPTURE(result.out);
  CHECK(result.exit_code == 0);
  CHECK(widest(result.out.substr(0, result.out.find("report: "))) <= 100);
  CHECK(result.out.find("1,080 training cases: ") == 0);
  const Json json = Json::parse(read_file(file));
  CHECK(json.at("schema") == "zeroproof-coverage/1");
  const Json& pairs = json.at("pairs");
  CHECK(json.at("pairs_never_visited").size() ==
        pairs.at("possible").get<std::size_t>() - pairs.at("visited").get<std::size_t>());
  const Json& triples = json.at("triples");
  CHECK(json.at("triples_never_visited").size() ==
        triples.at("possible").get<std::size_t>() - triples.at("visited").get<std::size_t>());
  std::size_t of_groups = 0;
  for (const Json& group : json.at("groups")) {
    of_groups += group.at("triples").at("possible").get<std::size_t>();
    CHECK(result.out.find("\n" + group.at("group").get<std::string>() + " ") != std::string::npos);
  }
  CHECK(of_groups == triples.at("possible"));
  for (const Json& row : json.at("settings")) {
    if (row.at("setting") == "bucket") CHECK(row.at("never_visited") == Json({"1024", "262144"}));
  }
}

TEST_CASE("nightly: pairwise report: the array of triples omits no pair and no triple") {
  const TemporaryFolder folder;
  const std::string file = folder.file("coverage.json");
  CHECK(run_cli("list --coverage --cover triples --json " + quoted(file)).exit_code == 0);
  const Json json = Json::parse(read_file(file));
  CHECK(json.at("pairs_never_visited").empty());
  CHECK(json.at("triples_never_visited").empty());
  CHECK(json.at("triples").at("visited") > 500);
}
