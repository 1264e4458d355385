// The self-test: every row is committed, a wrong one is named, and its trajectories are those of the golden digests.

#include <doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/paths.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/compare/judge/committed_digests.hpp"
#include "verification/compare/judge/self_test.hpp"

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

std::vector<SelfTestRow> all_rows() {
  std::vector<SelfTestRow> rows = self_test_tables();
  for (SelfTestRow& row : self_test_trajectories(load_text(workload_defaults("byte_gpt_tiny")))) {
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

TEST_CASE("self-test: rows and committed digests are the same set") {
  std::set<std::string> names;
  for (const SelfTestRow& row : all_rows()) {
    const std::string digest = to_hex(row.compute());
    CHECK_MESSAGE(digest == committed_digest(row.name),
                  "    {\"" << row.name << "\", \"" << digest << "\"},");
    CHECK(names.insert(row.name).second);
  }
  CHECK(names.size() == std::size(committed_digests));
  const SelfTest result = run_self_test();
  CHECK(result.rows == static_cast<std::int64_t>(names.size()));
  CHECK(result.differing.empty());
  CHECK(result.not_run.empty());
}

TEST_CASE("self-test: its trajectories are those of every other case") {
  std::ifstream file(source_folder() + "/tests/golden/digests.txt");
  std::ostringstream golden;
  golden << file.rdbuf();
  int found = 0;
  for (const auto& entry :
       committed_digests) {  // clang does not let a lambda have structured bindings
    const std::string row = entry.first;
    const std::string digest = entry.second;
    if (row.rfind("trajectory byte_gpt_tiny/", 0) != 0) continue;
    if (row.rfind("trajectory byte_gpt_tiny/fp8-", 0) == 0)
      continue;  // of the reference: golden digests belong to candidates
    CHECK_MESSAGE(golden.str().find(row + " " + digest + "\n") != std::string::npos, row);
    ++found;
  }
  CHECK(found == 5);
}

TEST_CASE("self-test: a row that differs, throws or is unknown is named, and the run fails") {
  const SelfTest result = run_self_test(std::vector<SelfTestRow>{
      {"grids",
       [] {
         return Digest{1, 2};
       }},
      {"float formats", []() -> Digest { throw std::runtime_error("broken"); }},
      {"no such row", [] { return Digest{}; }}});
  CHECK(result.rows == 3);
  CHECK(result.differing ==
        std::vector<std::string>{"grids", "float formats (broken)", "no such row"});
  RunReport report;
  report.results.emplace_back();
  report.results.back().status = Status::pass;
  report.self_test = SelfTest{3, {}, ""};
  CHECK(exit_code(report, false) == 0);
  CHECK(to_text(report, {}).find("self-test: 3 trajectories and tables as committed\n") !=
        std::string::npos);
  report.self_test = result;
  CHECK(exit_code(report, false) == 1);
  CHECK(
      to_text(report, {}).find("self-test: 3 of 3 trajectories and tables are not as committed") !=
      std::string::npos);
  CHECK(to_text(report, {}).find("grids, float formats (broken), no such row\n") !=
        std::string::npos);
  report.self_test = SelfTest{0, {}, "the text cannot be read"};
  CHECK(exit_code(report, false) == 0);
  CHECK(to_text(report, {}).find("self-test: not run (the text cannot be read)\n") !=
        std::string::npos);
}

TEST_CASE("self-test: every verify runs it") {
  const TemporaryFolder folder;
  const std::string file = folder.file("report.json");
  const CliResult result =
      run_cli("verify op/unscale/host/x86-64/fill:ties --report text," + quoted("json:" + file));
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("\nself-test: " + std::to_string(std::size(committed_digests)) +
                        " trajectories and tables as committed\n") != std::string::npos);
  const auto json = nlohmann::json::parse(read_file(file)).at("self_test");
  CHECK(json.at("rows") == std::size(committed_digests));
  CHECK(json.at("differing").empty());
}
