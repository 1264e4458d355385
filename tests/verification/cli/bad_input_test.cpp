// Bad input on the command line: one clear sentence with the remedy, exit 2, and nothing written.

#include <doctest.h>

#include "tests/verification/cli/cli_support.hpp"

namespace bad_input_test {

namespace {

using namespace zeroproof::tests;

/// Runs `verify` with the flags in a separate folder and checks the form of the refusal.
void expect_verify_refusal(const std::string& flags, const std::string& must_mention,
                           int exit_code = 2) {
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  expect_refusal("verify byte_gpt_tiny " + flags + " --report " + quoted("json:" + report),
                 must_mention, exit_code);
  CHECK(folder.empty());
}

void expect_toml_refusal(const std::string& toml, const std::string& must_mention) {
  CAPTURE(toml);
  const TemporaryFolder folder;
  expect_verify_refusal("--config " + quoted(folder.write("run settings.toml", toml)),
                        must_mention);
}

}  // namespace

TEST_CASE("bad input: values that no run accepts are refused") {
  expect_verify_refusal("--world threads:0", "threads:0");
  expect_verify_refusal("--world threads:-2", "threads:-2");
  expect_verify_refusal("--world mpi:0", "mpi:0");
  expect_verify_refusal("--world nccl:0", "nccl:0");
  expect_verify_refusal("--world nccl", "nccl:N");
  expect_verify_refusal("--world nccl:2 --impl host", "a candidate on the host");
  expect_verify_refusal("--world self,nccl:2 --impl host,host-fused", "--world mpi:2");
  expect_verify_refusal("--world nccl:2 --transport copies --impl device", "use threads:2");
  expect_verify_refusal("byte_gpt/adamw/host/stage1/nccl:2/bf16/lockstep/bucket:4096/omp:1",
                        "candidate host");
  expect_verify_refusal(
      "byte_gpt/adamw/host/stage1/threads:2/bf16/lockstep/bucket:4096/omp:1/transport:nccl",
      "candidate host");
  expect_verify_refusal("--world threads:four", "threads:four");
  expect_verify_refusal("--world cloud:4", "cloud:4");
  expect_verify_refusal("--micro-batches 0", "micro_batches is 0");
  expect_verify_refusal("--micro-batches -3", "micro_batches is -3");
  expect_verify_refusal("--steps 0", "steps is 0");
  expect_verify_refusal("--steps ten", "ten");
  expect_verify_refusal("--stage -1", "stage -1");
  expect_verify_refusal("--stage 4", "stage 4");
  expect_verify_refusal("--layout megatrom", "did you mean \"megatron\"?");
  expect_verify_refusal("--layout fsdp2", "optimizer.norm");
  expect_verify_refusal("--order stridden", "strided");
  expect_verify_refusal("--sum bins", "binned");
  expect_verify_refusal("--norm exakt", "exact");
  expect_verify_refusal("--world threads:4 --grid 2x2", "2x2");
  expect_verify_refusal("--world threads:4 --grid 2x3x1", "2x3x1");
  expect_verify_refusal("--world threads:8 --grid 2x2x1 --norm exact", "2x2x1");
  expect_verify_refusal("--world threads:4 --instances 3", "3 optimizer instances");
  expect_verify_refusal("--persistent -1", "persistent");
  expect_verify_refusal(
      "byte_gpt/adamw/host/stage1/threads:4/bf16/free/bucket:4096/omp:1/sum:native", "native");
  expect_verify_refusal(
      "byte_gpt/adamw/host/stage1/threads:4/bf16/free/bucket:4096/omp:1/grid:1x2x1", "1x2x1");
  expect_verify_refusal("lbfgs/rosenbrok", "did you mean rosenbrock?");
  expect_verify_refusal("lbfgs/rosenbrock/arm/self/contract", "did you mean armijo?");
  expect_verify_refusal("lbfgs/rosenbrock/armijo/mpi:2/contract", "use threads:2");
  expect_verify_refusal("lbfgs/rosenbrock/armijo/nccl:2/contract", "use threads:2");
  expect_verify_refusal("lbfgs/rosenbrock/armijo/self/flat", "deepspeed_flat");
  expect_verify_refusal("resume/adamw/3:2-to-2:1/fp16/contract-to-contract/after:3-of-4 --steps 6",
                        "--steps 6 does not apply to 'resume/");
  expect_verify_refusal("--bucket 1000", "1000");
  expect_verify_refusal("--bucket 0", "0");
  expect_verify_refusal("--threads -1", "-1");
  expect_verify_refusal("--dtype fp8", "fp8");
  expect_verify_refusal("--impl hots", "host");
  expect_verify_refusal("--mode sideways", "sideways");
  expect_verify_refusal("--seed banana", "banana");
  expect_verify_refusal("--comm-timeout 0", "comm_timeout_s");
  expect_verify_refusal("--fault double-unscalee", "did you mean double-unscale?");
  expect_verify_refusal("--fault lbfgs-dot", "lbfgs-dot-of-own-shard");
  expect_verify_refusal("--fault double-unscale", "zeroproof-faults", 3);
}

TEST_CASE("bad input: configuration files are refused with the file and the reason") {
  expect_toml_refusal("[run\nsteps = 3\n", "run settings.toml:1");
  expect_toml_refusal("[run]\nstep = 3\n", "did you mean run.steps?");
  expect_toml_refusal("[optimiser]\nlr = 1.0\n", "did you mean optimizer.lr?");
  expect_toml_refusal("[optimizer]\neps = 0.0\n", "optimizer.eps is 0");
  expect_toml_refusal("[optimizer]\neps = -1e-8\n", "optimizer.eps is -1e-08");
  expect_toml_refusal("[optimizer]\nbeta1 = 1.0\n", "beta1 is 1");
  expect_toml_refusal("[optimizer]\nbeta2 = -0.1\n", "beta2 is -0.1");
  expect_toml_refusal("[optimizer]\nmax_norm = -1.0\n", "max_norm is -1");
  expect_toml_refusal("[run]\nstages = [5]\n", "stage 5");
  expect_toml_refusal("[run]\nworlds = [\"threads:0\"]\n", "threads:0");
  expect_toml_refusal("[run]\nsteps = \"many\"\n", "run.steps");
  expect_toml_refusal("[loss_scaler]\ninitial_loss_scale = 1000\n", "a power of two");
  expect_toml_refusal("[model]\nheads = 7\n", "model.heads 7");
  expect_verify_refusal("--config /nonexistent/zeroproof.toml", "/nonexistent/zeroproof.toml");
  expect_verify_refusal("--config /tmp", "/tmp");
}

TEST_CASE("bad input: numbers that overflow or lose bits are refused") {
  for (const char* id : {"stage4294967298/self/bf16/lockstep/bucket:4096/omp:1",
                         "stage1/self/bf16/lockstep/bucket:4096/omp:4294967297",
                         "stage1/threads:4294967298/bf16/lockstep/bucket:4096/omp:1",
                         "stage1/self/bf16/lockstep/bucket:18446744073709555712/omp:1"}) {
    CAPTURE(id);
    CHECK(run_cli(std::string("replay byte_gpt_tiny/adamw/host/") + id).exit_code == 2);
    CHECK(run_cli(std::string("verify byte_gpt_tiny/adamw/host/") + id).exit_code >= 2);
  }
}

TEST_CASE("bad input: control characters do not reach the terminal, long input is not quoted") {
  const std::string red = "\x1b[31mred";
  const std::string longest(5000, 'x');
  for (const std::string& word : {red, longest}) {
    for (const char* flags :
         {"verify ", "verify byte_gpt_tiny --text ", "verify byte_gpt_tiny --impl ",
          "verify byte_gpt_tiny --steps ", "verify byte_gpt_tiny --config ",
          "verify byte_gpt_tiny --report json:/proc/none/", "verify --gradients ", "replay ",
          "diff /none ", "plan ", "explain ", "golden check ", "judge /none ", "", "verify --"}) {
      CAPTURE(flags);
      const CliResult result = run_cli(flags + quoted(word));
      CHECK(result.exit_code >= 2);
      CHECK(result.exit_code <= 4);
      CHECK((result.out + result.err).find('\x1b') == std::string::npos);
      CHECK((result.out + result.err).size() < 1000);
      CHECK_FALSE(result.err.empty());
    }
  }
  expect_toml_refusal("[run]\ntext = 3 # \x1b\n", "not valid TOML");
  expect_toml_refusal("[run]\ndtypes = [\"\\u001b[31m\"]\n", "[31m");
  expect_toml_refusal("[run]\ndtypes = [\"" + longest + "\"]\n", "bytes left out");
}

TEST_CASE("bad input: unusable texts are refused") {
  const TemporaryFolder folder;
  expect_verify_refusal("--text " + quoted(folder.write("empty.txt", "")), "empty.txt");
  expect_verify_refusal("--text " + quoted(folder.write("short.txt", "too short")), "short.txt");
  expect_verify_refusal("--text " + quoted(folder.file("missing.txt")), "missing.txt");
  expect_verify_refusal("--text /tmp", "/tmp");
}

TEST_CASE("bad input: unwritable reports are refused before the work") {
  const TemporaryFolder folder;
  folder.write("file", "");
  const std::string longest(256, 'x');
  for (const std::string& name :
       {std::string("/dev/null/report.json"), std::string("/proc/report.json"),
        std::string("/proc/none/report.json"), std::string("/"), folder.file(""), folder.file("."),
        folder.file("file/report.json"), folder.file(longest),
        folder.file(longest + "/report.json"), std::string(5000, 'x')}) {
    CAPTURE(name);
    for (const char* kind : {"json:", "junit:", "html:"}) {
      const CliResult result =
          run_cli("verify byte_gpt_tiny --steps 1 --report " + quoted(kind + name));
      expect_refusal(result, "cannot be written");
    }
    expect_refusal("plan byte_gpt_tiny --json " + quoted(name), "cannot be written");
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.file("")), {}) == 1);
  // A removed folder.
  const std::string gone = "; mkdir " + quoted(folder.file("gone")) + " && cd " +
                           quoted(folder.file("gone")) + " && rmdir " + quoted(folder.file("gone"));
  CHECK(run_cli("--version >/dev/null" + gone + " && " + quoted(build_folder() + "/zeroproof") +
                " verify byte_gpt_tiny --steps 1 --report json:x")
            .exit_code == 2);
  CHECK(run_cli("verify byte_gpt_tiny --report csv:x").exit_code == 2);
}

TEST_CASE("bad input: unusable command lines are refused") {
  const CliResult empty = run_cli("");
  CHECK(empty.exit_code == 2);
  CHECK(empty.err.find("Usage: ") != std::string::npos);
  const CliResult incomplete = run_cli("verify --steps");
  CHECK(incomplete.exit_code == 2);
  CHECK(incomplete.err.find("zeroproof --help") != std::string::npos);
  CHECK(run_cli("verify no_such_workload").exit_code == 4);
  CHECK(run_cli("--help").exit_code == 0);
  CHECK(run_cli("verify --help").exit_code == 0);
  const CliResult version = run_cli("--version");
  CHECK(version.exit_code == 0);
  CHECK(version.out.find("numeric contract 2") != std::string::npos);
  CHECK(run_cli("doctor").out.find("instruction sets") != std::string::npos);
  const CliResult list = run_cli("list");
  CHECK(list.out.find("byte_gpt/adamw/host/stage2/threads:4/bf16/lockstep") != std::string::npos);
  CHECK(run_cli("list --faults").out.find("double-unscale") != std::string::npos);
}

TEST_CASE("failing case: names its place, and its replay line fails identically") {
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  const CliResult failing = run_cli(
      "verify 'byte_gpt_tiny/adamw/host/stage1/self/bf16/*' --steps 2 --fault "
      "decay-after-update --report " +
          quoted("text,json:" + report),
      "zeroproof-faults");
  CHECK(failing.exit_code == 1);
  CHECK(failing.out.find("phase update") != std::string::npos);
  const auto json = nlohmann::json::parse(read_file(report));
  const auto& result = json.at("cases").at(0);
  CHECK(result.at("status") == "fail");
  CHECK(result.at("divergence").at("parameter") == "token_embedding.weight");
  const std::string replay = result.at("replay");
  CAPTURE(replay);
  const std::size_t arguments = replay.find(" replay ");
  REQUIRE(arguments != std::string::npos);
  CHECK(replay.rfind("/", 0) == 0);  // it works in any folder
  const CliResult again = run_cli(replay.substr(arguments), "zeroproof-faults");
  CHECK(again.exit_code == 1);
  CHECK(again.out.find("token_embedding.weight[0, 0]") != std::string::npos);
}

TEST_CASE("verdict: a run in which most steps were skipped is mistrusted") {
  const TemporaryFolder folder;
  const std::string config = folder.write("far.toml", "[optimizer]\nlr = 1e30\n");
  const CliResult result = run_cli(
      "verify byte_gpt_tiny --recipe adamw --world self --stage 1 --config " + quoted(config));
  CHECK(result.exit_code == 4);
  CHECK(result.out.find("most steps were skipped: 5 of 6") != std::string::npos);
  CHECK(result.out.find("nothing was proved") != std::string::npos);
  CHECK(result.out.find("\nproved:") == std::string::npos);
}

TEST_CASE("strict: mistrusted cases count as failed") {
  // Without clipping and overflow the run proves less: permitted, but reported.
  const TemporaryFolder folder;
  const std::string config = folder.write("loose.toml", "[optimizer]\nmax_norm = 1e9\n");
  const std::string flags =
      "verify byte_gpt_tiny --recipe adamw --world self --stage 1 --dtype bf16 --config " +
      quoted(config);
  const CliResult lenient = run_cli(flags);
  CHECK(lenient.exit_code == 4);  // permitted, but nothing passed
  CHECK(lenient.out.find("clipping is on but never bound") != std::string::npos);
  CHECK(lenient.out.find("; use a --max-norm below that") != std::string::npos);
  CHECK(lenient.out.find("nothing was proved") != std::string::npos);
  CHECK(run_cli(flags + " --strict").exit_code == 1);
  CHECK(run_cli(flags + " --strict --max-norm 0.3").exit_code == 0);
}

}  // namespace bad_input_test
