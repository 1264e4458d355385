// Annotations and the job summary of GitHub.

#include <doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/report/github.hpp"

namespace github_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

Result case_of(const std::string& group, Status status) {
  Result result;
  result.group = group;
  result.id = "op/" + group + "/plugin/mine";
  result.status = status;
  result.reason = "a reason";
  return result;
}

/// A report with a failure of each of `causes` groups.
RunReport failures(int causes) {
  RunReport report;
  report.results.push_back(case_of("passes", Status::pass));
  for (int i = 0; i < causes; ++i)
    report.results.push_back(case_of("op" + std::to_string(i), Status::fail));
  return report;
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// An environment variable that is set for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

const std::string one_case = "verify 'op/unscale/host/x86-64/fill:training' --report ";

}  // namespace

TEST_CASE("GitHub: texts cannot end a command or a property") {
  CHECK(github_command("error", {"a,b:c%.cpp", 7}, "t: x", "50 %\nnext::\n") ==
        "::error file=a%2Cb%3Ac%25.cpp,line=7,title=t%3A x::50 %25%0Anext::\n");
  CHECK(github_command("warning", {}, "t", "a\rb") == "::warning title=t::a\\x0db\n");
  CHECK(github_command("error", {}, "a\n::error::b", "") ==
        "::error title=a\\x0a%3A%3Aerror%3A%3Ab::\n");
}

TEST_CASE("GitHub: a file is named relative to the workspace") {
  const TemporaryFolder folder;
  folder.write("kernel.cpp", "");
  const Variable workspace("GITHUB_WORKSPACE",
                           std::filesystem::path(folder.file("x")).parent_path());
  CHECK(github_command("error", {folder.file("kernel.cpp")}, "t", "m") ==
        "::error file=kernel.cpp,title=t::m\n");
  CHECK(github_command("error", {"/etc/passwd"}, "t", "m") ==
        "::error file=/etc/passwd,title=t::m\n");
}

TEST_CASE("GitHub: one annotation for a cause, with its first element, ten at most") {
  RunReport report = failures(1);
  Divergence& d = report.results.back().divergence.emplace();
  d.buffer = "master";
  d.shard_index = 869;
  d.call = "numel 1023";
  d.candidate_value = "0x1 (1e-45)";
  d.reference_value = "0x0 (0)";
  report.results.push_back(report.results.back());  // the same cause
  report.results.back().id += "/again";
  const std::string text = to_github(report, false, {"k.cpp"});
  CAPTURE(text);
  CHECK(text.find("::error file=k.cpp,title=zeroproof%3A fail op0::op/op0/plugin/mine%0A") == 0);
  CHECK(
      text.find("first at  master[869]  numel 1023%0A  values    got 0x1 (1e-45)  want 0x0 (0)") !=
      std::string::npos);
  CHECK(text.find("also in   1 more of op0") != std::string::npos);
  CHECK(count_of(text, "\n") == 1);

  CHECK(count_of(to_github(failures(10), false, {}), "::error") == 10);
  const std::string many = to_github(failures(12), false, {});
  CHECK(count_of(many, "::error") == 10);
  CHECK(many.find("3 causes more") != std::string::npos);
}

TEST_CASE("GitHub: runs that first differ in the same buffer are one annotation") {
  RunReport report;
  for (const char* buffer : {"master", "master", "exp_avg", "master"}) {
    Result run = training_result({});
    run.status = Status::fail;
    run.training.emplace();
    run.divergence.emplace().buffer = buffer;
    report.results.push_back(run);
  }
  const std::string text = to_github(report, false, {});
  CHECK(count_of(text, "::error") == 2);
  CHECK(text.find("  also in   2 more runs") != std::string::npos);
}

TEST_CASE("GitHub: mistrusted cases warn, with strict they fail, and no pass is an error") {
  RunReport report = failures(0);
  report.results.push_back(case_of("doubtful", Status::mistrusted));
  CHECK(to_github(report, false, {}).find("::warning title=zeroproof%3A mistrusted::1 case") == 0);
  CHECK(to_github(report, true, {}).find("::error title=zeroproof%3A mistrusted") == 0);
  CHECK(to_github(failures(0), false, {}).empty());
  CHECK(to_github({}, false, {}).find("nothing was proved") != std::string::npos);
}

TEST_CASE("GitHub: the summary has failures first, its markup escaped, and fits") {
  RunReport report = failures(1);
  report.results.back().reason = "a|b <b> *c* [d](e) `f` @g\nh";
  const std::vector<SummaryRow> rows = summary_rows(report, false);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].verdict == "fail");
  CHECK(rows[1].text == "a reason");
  const std::string text = job_summary("title", rows, 1 << 20);
  CAPTURE(text);
  CHECK(text.find("| fail | op/op0/plugin/mine | a&#124;b &#60;b&#62; &#42;c&#42; &#91;d&#93;(e) "
                  "&#96;f&#96; &#64;g") != std::string::npos);
  CHECK(text.find("<pre>  reason    a|b &lt;b&gt; *c*") != std::string::npos);
  for (const int most : {60, 200, 1000, 5000}) {
    const std::string cut = job_summary("title", summary_rows(failures(200), false), most);
    CHECK(cut.size() <= static_cast<std::size_t>(most));
    if (most >= 200) CHECK(cut.find(" more do not fit here") != std::string::npos);
  }
}

TEST_CASE("GitHub: verify prints annotations and appends to the summary") {
  const TemporaryFolder folder;
  const std::string summary = folder.write("summary.md", "before\n");
  const Variable there("GITHUB_STEP_SUMMARY", summary);
  const CliResult good = run_cli(one_case + "github");
  CHECK(good.exit_code == 0);
  CHECK(good.out.empty());
  CHECK(read_file(summary).starts_with("before\n### zeroproof&#58; 1 pass\n"));
  CHECK(run_cli(one_case + "github:/none.cpp").exit_code == 2);
  CHECK(run_cli(one_case + "githab").err.find("did you mean github?") != std::string::npos);

  folder.write("summary.md", std::string(1 << 20, 'x'));
  const CliResult full = run_cli(one_case + "github");
  CHECK(full.exit_code == 0);
  CHECK(full.err.find("is full (GitHub shows 1 MiB)") != std::string::npos);
  CHECK(std::filesystem::file_size(summary) == 1 << 20);
}

TEST_CASE("GitHub: a summary that cannot be written is one sentence, and no verdict") {
  const Variable there("GITHUB_STEP_SUMMARY", "/dev/null/summary.md");
  const CliResult result = run_cli(one_case + "text,github");
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("1 pass, 0 fail") != std::string::npos);
  CHECK(result.err.find("zeroproof: the job summary /dev/null/summary.md cannot be written: ") !=
        std::string::npos);
}

}  // namespace github_test
