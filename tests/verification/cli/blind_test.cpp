// zeroproof-faults verify --blind N: the name of the fault appears only after reveal.

#include <doctest.h>

#include <set>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/faults/blind_faults.hpp"

namespace blind_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

constexpr const char* program = "zeroproof-faults";
const std::string one_case =
    "byte_gpt_tiny/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1";

/// The name of a fault that occurs in a text, or "".
std::string named_in(const std::string& text) {
  for (const Fault& fault : fault_catalogue()) {
    if (text.find(fault.id) != std::string::npos) return std::string(fault.id);
    if (text.find(fault.summary) != std::string::npos) return std::string(fault.summary);
  }
  return {};
}

std::size_t count_of(const std::string& id) {
  VerifyOptions options;
  return blind_faults(options, id).size();
}

}  // namespace

TEST_CASE("nightly: blind faults: each is found, named nowhere, replayed and revealed") {
  const std::size_t count = count_of(one_case);
  CHECK(count >= 8);
  std::set<std::string> revealed;
  for (std::size_t n = 1; n <= count; ++n) {
    CAPTURE(n);
    const TemporaryFolder folder;
    const std::string number = std::to_string(n);
    const std::string reports = "text,json:" + folder.file("r.json") +
                                ",junit:" + folder.file("r.xml") + ",html:" + folder.file("r.html");
    const CliResult run =
        run_cli("verify " + one_case + " --blind " + number + " --rows --report " +
                    quoted(reports) + " --save-failing " + quoted(folder.file("kept")),
                program);
    CHECK(run.exit_code == 1);
    std::string output = run.out + run.err;
    for (const char* file : {"r.json", "r.xml", "r.html"}) output += folder.read(file);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.file("kept"))) {
      if (entry.is_regular_file()) output += entry.path().string() + read_file(entry.path());
    }
    CHECK(named_in(output) == "");
    CHECK(run.out.find("replay " + one_case + " --blind " + number + "\n") != std::string::npos);
    CHECK(run.out.find("reveal " + number + " " + one_case) != std::string::npos);
    revealed.insert(named_in(run_cli("reveal " + number + " " + one_case, program).out));
  }
  CHECK(revealed.size() == count);
  CHECK(revealed.count("") == 0);
}

TEST_CASE("blind faults: the replay line finds the same place") {
  const CliResult once = run_cli("verify " + one_case + " --blind 2", program);
  const CliResult again = run_cli("replay " + one_case + " --blind 2", program);
  const auto place = [](const std::string& out) {
    const std::size_t at = out.find("  first at  ");
    REQUIRE(at != std::string::npos);
    return out.substr(at, out.find('\n', at) - at);
  };
  CHECK(place(once.out) == place(again.out));
}

TEST_CASE("blind faults: faults without an effect in the case are excluded") {
  const VerifyOptions options;
  for (const Fault* fault : blind_faults(options, one_case)) {
    CHECK(fault->phase.has_value());
    CHECK(fault->id.rfind("lion-", 0) != 0);
    CHECK(fault->id.rfind("lamb-", 0) != 0);
  }
  CHECK(count_of("byte_gpt/adamw/host/stage2/threads:3/fp16/lockstep/bucket:4096/omp:1") == 0);
  VerifyOptions short_run;
  short_run.overrides = [](RunConfig& config) { config.steps = 1; };
  CHECK(blind_faults(short_run, one_case).size() <
        count_of(one_case));  // some appear in later steps
}

TEST_CASE("blind faults: invalid numbers and cases of several kinds are refused") {
  const std::string verify = "verify " + one_case + " --blind ";
  const std::string last = std::to_string(count_of(one_case));
  for (const char* number : {"0", "-1", "1000", "two", "1.5"}) {
    expect_refusal(run_cli(verify + number, program), "use 1 to " + last);
  }
  expect_refusal(run_cli("reveal 1000 " + one_case, program), "use 1 to " + last);
  expect_refusal(run_cli("reveal 1 nothing", program), "no case matches 'nothing'");
  expect_refusal(run_cli(verify + "1 --fault double-unscale", program),
                 "--blind was given with --fault");
  expect_refusal(run_cli("verify byte_gpt_tiny --blind 1", program), "do not have the same faults");
  expect_refusal(
      run_cli(
          "verify byte_gpt/adamw/host/stage2/threads:3/bf16/lockstep/bucket:4096/omp:1 --blind 1",
          program),
      "no fault is known to show");
  expect_refusal(run_cli(verify + "1"), "no planted faults", 3);
}

}  // namespace blind_test
