// State in fewer bits that was offloaded when it was saved, or is when it is loaded (R25), equals
// the state of an uninterrupted training, on any ranks.

#include <doctest.h>

#include <string>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/cli/program/text_lines.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace {

std::string state_of(const std::string& words) {
  const CliResult result =
      run_cli("train --workload byte_gpt_tiny --dtype bf16 --norm exact " + words);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  for (const std::string& line : verification::lines_of(result.out)) {
    if (line.starts_with("state ")) return line.substr(0, 38);
  }
  return "";
}

}  // namespace

TEST_CASE("offloaded formats: a state saved with offload resumes without, and the reverse") {
  for (const char* recipe : {"adamw+exp_avg_dtype:e4m3+exp_avg_sq_dtype:fp16",
                             "adamw-stochastic+master_dtype:bf16+exp_avg_dtype:fp16"}) {
    CAPTURE(recipe);
    const TemporaryFolder folder = TemporaryFolder::in_memory();
    const std::string of = "--recipe " + std::string(recipe);
    const std::string whole = state_of(of + " --world self --stage 0 --steps 6");
    CHECK(whole.size() == 38);
    const std::string one = " --checkpoint " + quoted(folder.file("one"));
    state_of(
        of + one +
        " --world threads:3 --stage 2 --layout fsdp2 --steps 3 --offload 0.7 --offload-place file "
        "--offload-chunk 500");
    CHECK(state_of(of + one +
                   " --world threads:2 --stage 1 --impl host-fused --steps 6 --resume") == whole);
    const std::string two = " --checkpoint " + quoted(folder.file("two"));
    state_of(of + two + " --world threads:2 --stage 1 --steps 3");
    CHECK(
        state_of(of + two +
                 " --world threads:5 --stage 3 --layout fsdp2 --impl host-fused --steps 6 --resume "
                 "--offload 1 --offload-order tensors") == whole);
  }
}

TEST_CASE(
    "offloaded formats: those with scales are refused on TP ranks in a sentence, and bf16 is not") {
  const std::string where =
      " --world threads:2 --grid 1x1x2 --norm exact --dtype bf16 --offload 0.5";
  for (const char* recipe : {"adamw+exp_avg_dtype:e4m3", "adamw+exp_avg_sq_dtype:fp16"}) {
    CAPTURE(recipe);
    const CliResult refused =
        run_cli("verify byte_gpt_tiny --recipe " + std::string(recipe) + where);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find("state in fp16 or e4m3 cannot be offloaded on 2 TP ranks") !=
          std::string::npos);
  }
  const CliResult taken =
      run_cli("verify byte_gpt_tiny --recipe adamw+model:even+exp_avg_dtype:bf16" + where);
  CHECK(taken.exit_code == 0);
}
