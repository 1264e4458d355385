// Libraries whose tensors are on a device: the simulated one, in a process of
// build/zeroproof-plugin-sim.

#include <doctest.h>
#include <stdlib.h>

#include "cuda/device/runtime/device.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/cases/run_report.hpp"
#include "verification/interfaces/plugin/plugin_candidate.hpp"
#include "verification/ops/op_case.hpp"

namespace plugin_device_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::verification;

std::string plugin_file(const std::string& name) {
  return tests::build_folder() + "/plugins/" + name + ".so";
}

/// While it exists, new processes have the name of a function of misbehaving_kernels.cu in
/// ZP_KERNEL.
class Odd {
 public:
  explicit Odd(const std::string& name) { ::setenv("ZP_KERNEL", name.c_str(), 1); }
  ~Odd() { ::unsetenv("ZP_KERNEL"); }
  Odd(const Odd&) = delete;
  Odd& operator=(const Odd&) = delete;
};

tests::CliResult verify(const std::string& what, const std::string& name,
                        const std::string& program = "zeroproof-sim") {
  return tests::run_cli("verify " + what + " --plugin " + tests::quoted(plugin_file(name)),
                        program);
}

tests::CliResult verify_odd(const std::string& what, const std::string& name,
                            const std::string& program = "zeroproof-sim") {
  const Odd odd(name);
  return verify(what, "kernel_odd", program);
}

/// clip of language_kernels.cu, as the kernel of that name, gets that verdict.
void expect_kernel(const std::string& name, Status status, const std::string& sentence,
                   const std::string& file = "kernel_language") {
  const Odd kind(name);
  const auto library = std::make_shared<Plugin>(plugin_file(file), PluginLimits{},
                                                tests::build_folder() + "/zeroproof-plugin-sim");
  const std::shared_ptr<const OpCandidate> candidate = plugin_candidate(library);
  const Result result =
      run_op_cases({{find_op("clip"), candidate.get(), Fill::training}}, {}).front();
  CAPTURE(name);
  CAPTURE(result.reason);
  CHECK(result.status == status);
  CHECK(result.reason.find(sentence) != std::string::npos);
  CHECK(result.reason.find('\n') == std::string::npos);
}

/// An operation of plugin_cuda/fused.cu in any order: a pass, or a failure with this hint.
void judge_fused(const std::string& operation, const std::string& library,
                 const std::string& hint = "") {
  const tests::CliResult result = verify("'op/" + operation +
                                             "/plugin/fused/fill:training' --accept any-order "
                                             "--declined accept --second-seed 2",
                                         library);
  CAPTURE(library);
  CAPTURE(result.out);
  CHECK(result.exit_code == (hint.empty() ? 0 : 1));
  CHECK(result.out.find(hint) != std::string::npos);
}

/// clip, with the misbehaving call, gets that verdict twice, and clip_value in between passes.
void expect(const std::string& name, Status status, const std::string& sentence) {
  const Odd kind(name);
  PluginLimits limits;
  limits.seconds = 2;
  const auto library = std::make_shared<Plugin>(plugin_file("kernel_odd"), limits,
                                                tests::build_folder() + "/zeroproof-plugin-sim");
  const std::shared_ptr<const OpCandidate> candidate = plugin_candidate(library);
  CAPTURE(name);
  for (const char* op : {"clip", "clip_value", "clip"}) {
    const Result result =
        run_op_cases({{find_op(op), candidate.get(), Fill::training}}, {}).front();
    const bool odd = std::string(op) == "clip";
    CAPTURE(result.reason);
    CHECK(result.status == (odd ? status : Status::pass));
    if (odd) CHECK(result.reason.find(sentence) != std::string::npos);
    CHECK(result.reason.find('\n') == std::string::npos);
  }
}

}  // namespace

TEST_CASE("device plug-in: a correct kernel passes, a missing tail is found") {
  const tests::CliResult right = verify("'op/adamw_update/plugin/*/fill:training'", "kernel");
  CAPTURE(right.out);
  CAPTURE(right.err);
  CHECK(right.exit_code == 0);
  CHECK(right.out.find("adamw_update                   bitwise      1") != std::string::npos);
  const tests::CliResult wrong = verify("'op/adamw_update/plugin/*/fill:training'", "kernel_tail");
  CAPTURE(wrong.out);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find("hint      they hold their previous values: not written") !=
        std::string::npos);
}

TEST_CASE("device plug-in: a kernel is the update of training steps") {
  const std::string places =
      "byte_gpt_tiny --recipe adamw --dtype bf16 --stage 0,3 --world self,threads:2";
  const tests::CliResult right = verify(places, "kernel");
  CAPTURE(right.out);
  CHECK(right.exit_code == 0);
  CHECK(right.out.find("4 pass, 0 fail") != std::string::npos);
  const tests::CliResult wrong = verify(places, "kernel_tail");
  CAPTURE(wrong.out);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find("phase update  rank 0  buffer ") != std::string::npos);
}

TEST_CASE("device plug-in: calls have device tensors and a stream, queries of support neither") {
  expect("honest", Status::pass, "");
  expect("looks", Status::pass, "");
}

TEST_CASE("device plug-in: a whole step is judged by its results on the device") {
  const tests::CliResult result = verify_odd(
      "byte_gpt_tiny/adamw/plugin/stage1/threads:3/bf16/whole/bucket:4096/omp:0", "honest");
  CAPTURE(result.out);
  CHECK(result.exit_code == 1);
  CHECK(result.out.find("first at  step 1  phase reduce  rank 0  buffer grad_sum") !=
        std::string::npos);
  CHECK(result.out.find("got 0xffffffff (-nan)") != std::string::npos);
}

TEST_CASE("device plug-in: side effects of a kernel become verdicts") {
  expect("touches_memory", Status::crashed,
         "the plug-in died of SIGSEGV: it accessed unmapped memory in clip");
  expect("writes_behind", Status::fail, "grad was written outside its bounds");
  expect("writes_far", Status::crashed, "the plug-in died of SIGSEGV");
  expect("edits_input", Status::tampered, "the input unscaled_grad was edited");
  expect("splits_block", Status::crashed,
         "the plug-in's work on the device ended in clip: block 0 of a kernel cannot go on");
  expect("half_a_warp", Status::error, "the plug-in returned -1 in clip");
  expect("never_ends", Status::hung, "did not return in clip within 2 s");
  expect("launches_nothing", Status::fail, "grad[0] differs from the reference");
}

TEST_CASE("device plug-in: shared memory, shuffles, votes and atomics are CUDA's") {
  expect_kernel("whole_language", Status::pass, "");
}

TEST_CASE("device plug-in: misused shared memory and shuffles are located") {
  expect_kernel("returned_lane", Status::crashed,
                "the shuffle's mask 0xffffffff names lane 5, which has returned");
  expect_kernel("outside_mask", Status::crashed,
                "is called by lane 16, which is not in its mask 0x0000ffff");
  expect_kernel("odd_width", Status::crashed, "has a width that is no power of two up to 32");
  expect_kernel("shared_overrun", Status::crashed,
                "a kernel wrote past its 256 bytes of dynamic shared memory");
  expect_kernel("unwritten", Status::fail, "grad[0] differs from the reference");
  expect_kernel("static_overrun", Status::crashed, "the plug-in died of SIGILL", "kernel_bounds");
  expect_kernel("much_shared", Status::error, "the plug-in returned -1 in clip");
}

TEST_CASE("device plug-in: kernels with shared memory and vectors pass, their mistakes fail") {
  for (const char* operation : {"grad_norm_p", "adamw_update", "adamw_update_bf16"})
    judge_fused(operation, "fused");
  judge_fused("grad_norm_p", "fused_no_barrier",
              "grad_norm[0] is NaN and has to be a finite number");
  judge_fused("grad_norm_p", "fused_narrow_shuffle", "results are in no legal order");
  judge_fused("adamw_update", "fused_tail_dropped",
              "always in the remainder of a loop over 4 elements");
  judge_fused("adamw_update_bf16", "fused_truncated",
              "a neighbouring number, at most 2 units in the last place away");
}

TEST_CASE("device plug-in: a library for another device is refused") {
  tests::expect_refusal(verify("clip", "kernel", "zeroproof"),
                        "was built for the simulated device, which this program does not have");
  tests::expect_refusal(verify_odd("clip", "for_a_gpu"),
                        "was built for a GPU, and this program simulates its device");
  tests::expect_refusal(verify_odd("clip", "for_what"), "asks for tensors of device_type 7");
  // Built before device fields existed: it is called, with wrong results.
  CHECK(verify_odd("'op/clip/plugin/*/fill:ties'", "old", "zeroproof").exit_code == 1);
  if (!cuda::device::device_info().answers)
    tests::expect_refusal(verify_odd("clip", "for_a_gpu", "zeroproof"), "and there is none (");
}

}  // namespace plugin_device_test
