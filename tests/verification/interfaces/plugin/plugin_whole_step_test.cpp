// A plug-in that computes whole steps in one call.

#include <doctest.h>
#include <stdlib.h>

#include "tests/verification/cli/cli_support.hpp"

namespace plugin_whole_step_test {

namespace {

using namespace zeroproof::tests;

constexpr const char* places =
    "byte_gpt_tiny --recipe adamw --dtype bf16 --stage 0,1,2 --world self,threads:3";
constexpr const char* one_case =
    "byte_gpt_tiny/adamw/plugin/stage2/threads:3/bf16/whole/bucket:4096/omp:0";

CliResult verify(const std::string& what, const std::string& name) {
  return run_cli("verify " + what + " --plugin " +
                 quoted(build_folder() + "/plugins/" + name + ".so"));
}

/// With a misbehaviour of whole_misbehaving.cpp, or of another library.
CliResult verify_odd(const std::string& what, const std::string& name,
                     const std::string& library = "odd") {
  ::setenv("ZP_KERNEL", name.c_str(), 1);  // for the new process
  const CliResult result = verify(what, library);
  ::unsetenv("ZP_KERNEL");
  return result;
}

/// The whole step with this misbehaviour ends with a status and a sentence.
void expect(const std::string& name, int exit_code, const std::string& sentence) {
  const CliResult result = verify_odd(std::string(one_case) + " --plugin-timeout 2", name);
  CAPTURE(name);
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == exit_code);
  CHECK(result.out.find(sentence) != std::string::npos);
}

}  // namespace

TEST_CASE("whole step: a correct library passes in every parallel configuration") {
  const CliResult result = verify(places, "whole");
  CAPTURE(result.out);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("6 pass, 0 fail") != std::string::npos);
  CHECK(result.out.find("1 skipped (overflow)") != std::string::npos);
  const CliResult odd = verify(
      "byte_gpt_tiny/adamw/plugin/stage1/threads:5/bf16/whole/bucket:1024/omp:2 --micro-batches 3",
      "whole");
  CAPTURE(odd.out);
  CHECK(odd.exit_code == 0);
}

TEST_CASE("whole step: a fault is found at the first buffer in the order of data") {
  const CliResult divided = verify(places, "whole_divided");
  CAPTURE(divided.out);
  CHECK(divided.exit_code == 1);
  CHECK(divided.out.find("0 pass, 6 fail") != std::string::npos);
  CHECK(divided.out.find("first at  step 1  phase norm  rank 0  buffer grad_norm") !=
        std::string::npos);
  const CliResult counted = verify(places, "whole_counted");
  CAPTURE(counted.out);
  CHECK(counted.exit_code == 1);
  CHECK(counted.out.find("3 pass, 3 fail") != std::string::npos);  // one rank has no rank before it
  CHECK(counted.out.find("FAIL byte_gpt_tiny/adamw/plugin/stage0/threads:3/") != std::string::npos);
  CHECK(counted.out.find("first at  step 1  phase norm  rank 0  buffer grad_norm") !=
        std::string::npos);
}

TEST_CASE("whole step: results of an earlier run known by heart fail with the second seed") {
  const TemporaryFolder folder;
  ::setenv("ZP_HEART", folder.file("results").c_str(), 1);
  const std::string of_one_rank =
      "byte_gpt_tiny/adamw/plugin/stage0/self/bf16/whole/bucket:4096/omp:0";
  const CliResult learns = verify_odd(of_one_rank, "knows_by_heart");
  CAPTURE(learns.out);
  CHECK(learns.exit_code == 0);
  const CliResult knows = verify_odd(of_one_rank, "knows_by_heart");
  ::unsetenv("ZP_HEART");
  CAPTURE(knows.out);
  CHECK(knows.exit_code == 1);
  CHECK(knows.out.find("differs from the reference, in the training with the second seed") !=
        std::string::npos);
  CHECK(knows.out.find(" --second-seed ") != std::string::npos);
  const CliResult same = verify(std::string(one_case) + " --seed 5 --second-seed 5", "whole");
  CHECK(same.exit_code == 2);
  CHECK(same.err.find("--second-seed is 5, which is also the first seed") != std::string::npos);
}

TEST_CASE("whole step: declined steps are skipped, and never pass") {
  const CliResult result =
      verify("byte_gpt_tiny --recipe adamw --dtype fp16 --stage 1 --world threads:3", "whole");
  CAPTURE(result.out);
  CHECK(result.exit_code == 4);
  CHECK(result.out.find("the plug-in does not support this call of step: scaler.kind is not 0") !=
        std::string::npos);
  const CliResult layered =
      verify("byte_gpt_tiny --recipe adamw --dtype bf16 --stage 3 --world self", "whole");
  CHECK(layered.exit_code == 4);
  CHECK(layered.out.find("gradients then arrive layer by layer") != std::string::npos);
  const CliResult of_muon =
      verify("byte_gpt_tiny --recipe muon --dtype bf16 --stage 1 --world threads:3", "whole");
  CHECK(of_muon.exit_code == 4);
  CHECK(of_muon.out.find("the plug-in does not support this call of step: rule is not 0") !=
        std::string::npos);
}

TEST_CASE("whole step: libraries with steps, operations, or both are judged") {
  const CliResult operations = verify(one_case, "mine");
  CHECK(operations.exit_code == 2);
  CHECK(operations.err.find("the plug-in provides no whole step") != std::string::npos);
  CHECK(verify("byte_gpt_tiny --mode whole", "mine").exit_code == 2);
  CHECK(verify_odd("byte_gpt_tiny --mode whole", "old").exit_code ==
        2);  // the library was built before whole steps existed
  const CliResult steps = verify(
      "byte_gpt_tiny --recipe adamw --dtype bf16 --stage 0 --world self --mode lockstep", "whole");
  CAPTURE(steps.out);
  CHECK(steps.exit_code == 4);
  CHECK(steps.out.find("the plug-in whole does not have adamw_update") != std::string::npos);
  const CliResult both =
      verify_odd("byte_gpt_tiny --recipe adamw --dtype bf16 --stage 0 --world self",
                 "reads_the_documentation");
  CAPTURE(both.out);
  CHECK(both.out.find("1 pass, 0 fail, 1 skipped") != std::string::npos);
}

TEST_CASE("whole step: operands and settings match the documentation") {
  expect("reads_the_documentation", 0, "1 pass, 0 fail");
  for (const char* recipe : {"muon", "muon+split:heads", "muon+split:interleaved+ns_steps:9"}) {
    const CliResult of_muon = verify_odd(std::string("byte_gpt_tiny --dtype bf16 --stage 2 --world "
                                                     "threads:3 --recipe ") +
                                             recipe,
                                         "reads_the_documentation");
    CAPTURE(of_muon.out);
    CHECK(of_muon.exit_code == 9);
    CHECK(of_muon.out.find("returned 1 in step: matrices as documented") != std::string::npos);
  }
}

TEST_CASE("whole step: its inputs suffice for every recipe, layout, norm, sum and group") {
  const CliResult every = verify("byte_gpt_tiny --stage 0,1,2 --world self,threads:3", "any_step");
  CAPTURE(every.out);
  CHECK(every.exit_code == 0);
  CHECK(every.out.find(" pass, 0 fail  (") != std::string::npos);  // and none skipped
  for (const char* what :
       {"byte_gpt_tiny --recipe adamw --stage 1 --world threads:3 --sum binned",
        "byte_gpt_tiny --recipe adamw --stage 2 --world threads:3 --norm exact --layout "
        "megatron,fsdp2,greedy",
        "byte_gpt_tiny --recipe adamw+clip_groups:four --stage 2 --world threads:2 --dtype bf16",
        "byte_gpt_tiny --recipe muon+split:heads+owners:round_robin,"
        "muon+split:interleaved+factors:fp32+owners:balanced,muon+matrices:all,"
        "muon+ns_eps:large+floor:add+rounds_first:on+family:heavy_ball --stage 1 --world threads:3",
        "byte_gpt_tiny --recipe muon --stage 2 --world threads:3 --norm exact --layout megatron"}) {
    const CliResult result = verify(what, "any_step");
    CAPTURE(what);
    CAPTURE(result.out);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("pass, 0 fail  (") != std::string::npos);  // and none skipped
  }
}

TEST_CASE("whole step: one of Muon by the contract passes, with whole matrices and with parts") {
  const CliResult result = verify(
      "byte_gpt_tiny --recipe muon,"
      "muon+split:heads+form:scaled_factor+factors:fp32+floor:add+coefficients:cans+muon_scale:"
      "spectral,"
      "muon+split:interleaved+form:scaled_product+rounds_first:on+family:heavy_ball+muon_scale:"
      "unit_rms_norm+scale_factor:other --dtype bf16 --stage 0,2 --world self,threads:3",
      "whole_muon");
  CAPTURE(result.out);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("12 pass, 0 fail  (") != std::string::npos);
}

TEST_CASE("whole step: mistakes of Muon are found where ranks share a matrix, at their buffers") {
  const std::string shared =
      "byte_gpt_tiny --recipe muon+matrices:all --dtype bf16 --stage 0,2 --world self,threads:3";
  const CliResult correct = verify(shared, "whole_muon");
  CAPTURE(correct.out);
  CHECK(correct.out.find("4 pass, 0 fail  (") != std::string::npos);
  struct {
    const char *mistake, *verdict, *buffer;
  } constexpr mistakes[] = {
      {"slices", "2 pass, 2 fail  (", "master"},       // the matrix of one rank is whole
      {"owned_shape", "2 pass, 2 fail  (", "master"},  // and has its shape
      {"clips_last", "0 pass, 4 fail  (", "exp_avg"}};
  for (const auto& expected : mistakes) {
    const CliResult wrong = verify_odd(shared, expected.mistake, "whole_muon");
    CAPTURE(expected.mistake);
    CAPTURE(wrong.out);
    CHECK(wrong.exit_code == 1);
    CHECK(wrong.out.find(expected.verdict) != std::string::npos);
    CHECK(wrong.out.find("FAIL byte_gpt_tiny/muon+matrices:all/plugin/stage2/threads:3/") !=
          std::string::npos);
    CHECK(wrong.out.find("first at  step 1  phase update  rank 0  buffer " +
                         std::string(expected.buffer)) != std::string::npos);
  }
}

TEST_CASE("whole step: misbehaviour becomes a verdict of one sentence") {
  expect("dies", 6, "reason    the plug-in died of SIGABRT: it aborted in step\n");
  expect("loops", 5, "reason    the plug-in did not return in step within 2 s\n");
  expect("says_no", 9, "reason    the plug-in returned 9 in step: out of luck\n");
  expect("edits_leaf", 1, "the input leaf_grad was edited");
  expect("writes_behind", 1, "exp_avg was written outside its bounds");
  expect("writes_late", 1, "the plug-in wrote master after");
}

TEST_CASE("whole step: every step begins from the reference's state") {
  const CliResult result = verify_odd(one_case, "errs_once");  // one element, in the first of six
  CAPTURE(result.out);
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("            1  DIFFER  applied_steps exp_avg exp_avg_sq master") !=
        std::string::npos);
  CHECK(result.out.find("first at  step 1  phase update  rank 0  buffer exp_avg_sq") !=
        std::string::npos);
}

TEST_CASE("whole step: missing writes, and writes of a skipped step, are found") {
  expect("does_nothing", 1, "first at  step 1  phase reduce  rank 0  buffer grad_sum");
  expect("says_nothing_of_infinity", 1,
         "first at  step 1  phase unscale  rank 0  buffer found_inf");
  expect("parameters_of_before", 1, "first at  step 1  phase cast  rank 0  buffer param_shard");
  expect("fills_padding", 1,
         "buffer exp_avg_sq: has a number in its padding, which must stay poisoned");
  expect("moves_anyway", 1, "buffer exp_avg: differs from the reference");
  expect("counts_anyway", 1, "buffer applied_steps: differs from the reference");
  expect("norm_anyway", 1, "or clip_coef is a number although the step was skipped");
}

}  // namespace plugin_whole_step_test
