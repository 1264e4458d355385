// Files with the inputs of a fault's case besides its id: the case finds the fault at the place of
// its row.

#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "verification/cases/suites/selection.hpp"
#include "verification/cli/program/temporary_folder.hpp"
#include "verification/faults/fault_plan.hpp"

using namespace zeroproof;
using namespace zeroproof::verification;

TEST_CASE("fault inputs: files with settings or gradients let the cases find their faults") {
  const TemporaryFolder folder("inputs of cases are written there");
  const std::vector<std::string> written = write_fault_inputs({}, folder.path());
  std::size_t expected = 0;
  for (const FaultCase& row : fault_plan()) {
    const std::string path = folder.path() + "/" + std::string(row.fault);
    const bool settings = std::filesystem::exists(path + ".toml");
    const bool gradients = std::filesystem::exists(path + ".safetensors");
    CAPTURE(std::string(row.fault));
    CHECK(settings == (row.config != nullptr));
    CHECK(gradients == (row.gradients != nullptr));
    expected += (settings ? 1U : 0U) + (gradients ? 1U : 0U);
    if (!settings) continue;
    VerifyOptions options;
    options.patterns = {std::string(row.case_id)};
    options.config_file = path + ".toml";
    if (gradients) options.gradients = path + ".safetensors";
    const auto judged = [&](std::string_view planted) {
      options.fault = planted;
      return run_selection(options, select_cases(options), [](double, const std::string&) {})
          .results.front();
    };
    CHECK(judged("").status == Status::pass);
    const Result result = judged(row.fault);
    const auto fault = std::find_if(fault_catalogue().begin(), fault_catalogue().end(),
                                    [&](const Fault& other) { return other.id == row.fault; });
    CAPTURE(result.reason);
    CHECK(judge_fault(*fault, row, {result.status, result.reason, result.divergence}).exact);
  }
  CHECK(written.size() == expected);
  CHECK(expected >= 15);
}

TEST_CASE("fault inputs: unwritable folder and unknown fault are refused") {
  CHECK_THROWS_WITH_AS(write_fault_inputs({"cp-in-divisor"}, "/proc/zeroproof"),
                       doctest::Contains("cp-in-divisor.toml cannot be written"), Error);
  CHECK_THROWS_WITH_AS(write_fault_inputs({"no-such-fault"}, "/proc"),
                       doctest::Contains("no fault matches"), Error);
}
