// A plug-in in training steps, judged phase by phase.

#include <doctest.h>

#include "tests/verification/cli/cli_support.hpp"
#include "verification/cli/program/capabilities.hpp"

namespace plugin_step_test {

namespace {

using namespace zeroproof::tests;
using zeroproof::verification::mpi_answers;

CliResult verify(const std::string& what, const std::string& name) {
  return run_cli("verify " + what + " --steps 3 --plugin " +
                 quoted(build_folder() + "/plugins/" + name + ".so"));
}

constexpr const char* places =
    "byte_gpt_tiny --recipe adamw --dtype bf16 --stage 0,2,3 --world self,threads:2";

}  // namespace

TEST_CASE("plug-in step: a correct update passes, wherever the state is stored") {
  const CliResult result = verify(places, "mine");
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("6 pass, 0 fail") != std::string::npos);
  CHECK(
      verify("byte_gpt_tiny/adamw-amsgrad/plugin/stage1/threads:2/fp16/lockstep/bucket:4096/omp:1",
             "mine")
          .exit_code == 0);
}

TEST_CASE("plug-in step: a wrong update is found in the phase update") {
  const CliResult result = verify(places, "wrong");
  CAPTURE(result.out);
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("first at  step 1  phase update") != std::string::npos);
  CHECK(result.out.find("buffer master") != std::string::npos);
  CHECK(result.out.find("6 fail") != std::string::npos);
}

TEST_CASE("plug-in step: another order passes where it is accepted, and a wrong formula is named") {
  const std::string accept = " --accept any-order";
  const std::string two =
      "byte_gpt_tiny --recipe adamw --dtype bf16,fp16 --stage 0,3 --world self,threads:3";
  const CliResult bits = verify(two, "other");
  CHECK(bits.exit_code == 1);
  CHECK(bits.out.find("0 pass, 8 fail") != std::string::npos);
  const CliResult order = verify(two + accept, "other");
  CAPTURE(order.out);
  CHECK(order.exit_code == 0);
  CHECK(order.out.find("8 pass, 0 fail") != std::string::npos);
  const std::string grid =
      "byte_gpt_tiny --recipe adamw --dtype bf16 --stage 2 --world threads:4 --grid 2x2x1";
  CHECK(verify(grid + accept, "other").exit_code == 0);

  const CliResult lost = verify(two + accept, "lost");
  CHECK(lost.exit_code == 1);
  CHECK(lost.out.find("is outside the bound of any legal order\n") != std::string::npos);
  const CliResult wrong = verify(two + accept, "wrong");
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find(
            "first at  step 1  phase update  rank 0  buffer master: is outside the bound") !=
        std::string::npos);
  CHECK(wrong.out.find(
            "hint      as if eps were inside the square root, before the bias correction\n") !=
        std::string::npos);
  expect_refusal(verify("byte_gpt_tiny --accept dialect:torch-cpu-fused", "other"),
                 "was given with training cases");
  expect_refusal(verify("byte_gpt_tiny" + accept + ",fp32-powers", "other"),
                 "--accept fp32-powers was given with training cases");
  expect_refusal(verify("byte_gpt_tiny --recipe adamw --dtype bf16" + accept, "whole"),
                 "given for steps that are compared in bits");
}

TEST_CASE("plug-in step: a crash ends its case, and the next has a new process") {
  const CliResult result = verify(places, "step_dies");
  CAPTURE(result.out);
  CHECK(result.exit_code == 6);
  CHECK(result.out.find("0 pass, 0 fail, 6 crashed") != std::string::npos);
  CHECK(result.out.find("reason    the plug-in died of SIGABRT: it aborted in adamw_update\n") !=
        std::string::npos);
}

TEST_CASE("plug-in step: a missing rule is skipped, and named") {
  const CliResult result =
      verify("byte_gpt_tiny --recipe adamw,lion --dtype bf16 --stage 0 --world self", "mine");
  CAPTURE(result.out);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("the plug-in mine does not have lion_update") != std::string::npos);
  CHECK(
      verify("byte_gpt_tiny --recipe lion --dtype bf16 --stage 0 --world self", "mine").exit_code ==
      4);
}

TEST_CASE("plug-in step: a step that needs a declined call is skipped, and never passes") {
  const CliResult result = verify(places, "step_declines");
  CAPTURE(result.out);
  CHECK(result.exit_code == 4);
  CHECK(result.out.find("0 pass, 0 fail, 6 skipped") != std::string::npos);
  CHECK(result.out.find("the plug-in does not support this call of adamw_update") !=
        std::string::npos);
}

TEST_CASE("plug-in step: notes that a library writes for a rank are not the rank's") {
  if (!mpi_answers()) return;
  const std::string jobs = "byte_gpt_tiny --recipe adamw --dtype bf16 --stage 1 --world mpi:2";
  for (const char* name : {"forged_note", "pipe_note"}) {
    const CliResult result = verify(jobs, name);
    CAPTURE(name);
    CAPTURE(result.out);
    CHECK(result.exit_code == 1);
    CHECK(result.out.find("first at  step 1  phase update") != std::string::npos);
    CHECK(result.out.find("0 pass, 1 fail") != std::string::npos);
  }
  CHECK(verify(jobs, "mine").exit_code == 0);
}

TEST_CASE("plug-in step: a case without a plug-in is refused") {
  expect_refusal("verify byte_gpt_tiny/adamw/plugin/stage0/self/bf16/lockstep/bucket:4096/omp:1",
                 "add --plugin FILE");
  expect_refusal("verify byte_gpt_tiny --impl plugin", "add --plugin FILE");
}

TEST_CASE(
    "plug-in step: replay runs the library that the user names, and none that a bundle names") {
  const TemporaryFolder folder;
  const std::string failures = quoted(folder.file("failures"));
  const std::string id = "op/adamw_update/plugin/mine/fill:ties";
  const std::string plugins = build_folder() + "/plugins/";
  const CliResult found = run_cli("verify " + id + " --plugin " + quoted(plugins + "wrong.so") +
                                  " --save-failing " + failures);
  CHECK(found.exit_code == 1);
  const std::string saved = folder.file("failures") + "/op-adamw_update-plugin-mine-fill-ties";
  const std::size_t at = found.out.rfind(" replay ");
  REQUIRE(at != std::string::npos);
  const std::string line = found.out.substr(at, found.out.find('\n', at) - at);
  CHECK(line.find(saved) != std::string::npos);
  CHECK(line.ends_with(" --plugin " + plugins + "wrong.so"));
  const CliResult again = run_cli(line);
  CHECK(again.exit_code == 1);
  CHECK(again.out.find("bundle: the same failure as the saved one") != std::string::npos);
  const CliResult fixed =
      run_cli("replay " + quoted(saved) + " --plugin " + quoted(plugins + "mine.so"));
  CHECK(fixed.exit_code == 0);
  CHECK(fixed.out.find("bundle: NOT the saved failure") != std::string::npos);

  auto json = nlohmann::json::parse(read_file(saved + "/bundle.json"));
  const auto flag = std::ranges::find(json.at("flags"), "--plugin");
  REQUIRE(flag != json.at("flags").end());
  CHECK(std::ranges::find(json.at("flags"), "--second-seed") != json.at("flags").end());
  std::filesystem::copy_file(plugins + "constructor.so", saved + "/constructor.so");
  for (const std::string& planted : {saved + "/constructor.so", std::string("./constructor.so")}) {
    *std::next(flag) = planted;
    std::ofstream(saved + "/bundle.json") << json.dump();
    const std::string mark = folder.file("constructed");
    ::setenv("ZP_CONSTRUCTED", mark.c_str(), 1);
    const CliResult refused = run_cli("replay " + quoted(saved));
    CHECK_FALSE(std::filesystem::exists(mark));
    expect_refusal(refused, "add --plugin FILE");
    CHECK(
        run_cli("replay " + quoted(saved) + " --plugin " + quoted(plugins + "mine.so")).exit_code ==
        0);
    CHECK_FALSE(std::filesystem::exists(mark));
    run_cli("replay " + quoted(saved) + " --plugin " + quoted(plugins + "constructor.so"));
    CHECK(std::filesystem::remove(mark));  // by the user's word it is loaded
    ::unsetenv("ZP_CONSTRUCTED");
  }
}

}  // namespace plugin_step_test
