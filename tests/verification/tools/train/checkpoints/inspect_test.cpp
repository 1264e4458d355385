// The output of inspect fits a screen.

#include <doctest.h>

#include "tests/verification/cli/cli_support.hpp"

using namespace zeroproof::tests;

TEST_CASE("inspect counts the scales and histories of 8-bit parameters, and does not print them") {
  const TemporaryFolder folder = TemporaryFolder::in_memory();
  const std::string saved = quoted(folder.file("saved"));
  const std::string train =
      "train --workload byte_gpt_tiny --recipe fp8-delayed --steps 2 --checkpoint ";
  REQUIRE(run_cli(train + saved).exit_code == 0);
  const CliResult inspected = run_cli("checkpoint inspect " + saved);
  CAPTURE(inspected.out);
  CHECK(inspected.exit_code == 0);
  CHECK(inspected.out.find("param_scale   37 numbers\n") != std::string::npos);
  CHECK(inspected.out.find("amax_history  111 numbers\n") != std::string::npos);  // 3 slots each
}
