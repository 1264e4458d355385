// Mistyped commands and flags, and results that cannot be written.

#include <doctest.h>

#include <sys/stat.h>

#include "tests/verification/cli/cli_support.hpp"

namespace command_line_test {

namespace {

using namespace zeroproof::tests;

/// Runs shell text with the program in $ZEROPROOF; returns the error output.
CliResult run_shell(const std::string& script) {
  const TemporaryFolder folder;
  const std::string command = "ZEROPROOF='" + build_folder() + "/zeroproof'; { " + script +
                              "; } 2>'" + folder.file("err") + "' </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), "",
          read_file(folder.file("err"))};
}

}  // namespace

TEST_CASE("command line: unknown commands and flags are reported with the nearest name") {
  expect_refusal(run_cli("verfy"), "'verfy' is no command");
  expect_refusal(run_cli("verfy"), "did you mean verify?");
  expect_refusal(run_cli("explian update"), "did you mean explain?");
  const CliResult far = run_cli("frobnicate");
  expect_refusal(far, "use verify, list, record");
  CHECK(far.err.find("did you mean") == std::string::npos);
  expect_refusal(run_cli("verify --wrold self"), "did you mean --world?");
  expect_refusal(run_cli("verify --stagee=1"), "did you mean --stage?");
  expect_refusal(run_cli("replay x --strikt"), "did you mean --strict?");
  const CliResult flag = run_cli("plan byte_gpt --quiet");
  expect_refusal(flag, "--quiet is no flag of zeroproof plan");
  CHECK(flag.err.find("did you mean") == std::string::npos);
  expect_refusal(run_cli("doctor now"), "'now' is an unexpected argument of zeroproof doctor");
}

TEST_CASE("command line: hints are near names or omitted") {
  for (const char* arguments :
       {"verify op/banana", "explain banana", "verify controls/banana",
        "verify byte_gpt_tiny --recipe banana", "verify byte_gpt_tiny --fault banana",
        "verify byte_gpt_tiny --layout banana", "verify lbfgs/banana", "record x --workload banana",
        "trace --rule banana", "plan byte_gpt --count banana"}) {
    CAPTURE(arguments);
    const CliResult result = run_cli(arguments);
    expect_refusal(result, "banana");
    CHECK(result.err.find("did you mean") == std::string::npos);
  }
  const TemporaryFolder folder;
  const std::string config = folder.write("a.toml", "[optimizer]\nfoo = 1\n");
  const CliResult key = run_cli("verify --config " + quoted(config));
  expect_refusal(key, "defaults.toml shows all");
  CHECK(key.err.find("did you mean") == std::string::npos);
}

TEST_CASE("command line: words of other programs are answered with those of this one") {
  const std::string tiny = "verify byte_gpt_tiny ";
  const TemporaryFolder folder;
  const std::string config = quoted(folder.write("a.toml", "[optimizer]\nlearning_rate = 0.1\n"));
  for (const auto& [arguments, hint] : std::vector<std::pair<std::string, std::string>>{
           {tiny + "--dtype bfloat16", "bf16"},
           {tiny + "--dtype float32", "fp32"},
           {tiny + "--dtype half", "fp16"},
           {"plan byte_gpt --dtype bfloat16", "bf16"},
           {tiny + "--world 4", "threads:4"},
           {tiny + "--world thread:4", "threads:4"},
           {tiny + "--world sefl", "self"},
           {tiny + "--config " + config, "optimizer.lr"},
           {tiny + "--report out.html", "html:out.html"},
           {tiny + "--report text,a/out.json", "text,json:a/out.json"},
           {tiny + "--report out.xml", "junit:out.xml"},
           {tiny + "--report jason:out", "json:out"},
           {"explain zero", "stage0 or stage1 or stage2 or stage3"},
           {"explain ZeRO-2", "stage2"},
           {"verify adamw_update --plugin none --accept any_order", "any-order"},
           {"verify adamw_update --plugin none --accept bit", "bits"},
           {"judge a b --accept any_order", "any-order"}}) {
    CAPTURE(arguments);
    expect_refusal(run_cli(arguments), "did you mean " + hint + "?");
  }
  expect_refusal(tiny + "--dtype int8", "use bf16, fp16, fp32, e4m3 or e5m2");
  expect_refusal(tiny + "--world banana", "use self, threads:N, mpi:N or nccl:N");
  expect_refusal(tiny + "--world 0", "use self, threads:N, mpi:N or nccl:N");
  expect_refusal(tiny + "--report out.pdf", "use text, json:FILE");
}

TEST_CASE("command line: without arguments the help is printed as an error") {
  const CliResult result = run_cli("");
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK(result.err == run_cli("--help").out);
}

TEST_CASE("list: reports patterns without a match, as verify does") {
  for (const char* command : {"list nope", "verify nope"}) {
    CAPTURE(command);
    expect_refusal(run_cli(command), "no case matches 'nope'", 4);
    CHECK(run_cli(command).err.find("did you mean") == std::string::npos);
  }
  expect_refusal(run_cli("list byte_gtp"), "did you mean byte_gpt?", 4);
}

TEST_CASE("command line: devices and pipes are refused as input, without waiting") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe.toml");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto within = [](const std::string& arguments) {
    return run_shell("timeout 20 \"$ZEROPROOF\" " + arguments + " >/dev/null");
  };
  for (const std::string& file : {pipe, std::string("/dev/zero"), std::string("/dev/stdin")}) {
    for (const std::string flag : {"--config", "--text", "--gradients", "--hostfile"}) {
      CAPTURE(flag);
      CAPTURE(file);
      const std::string id = flag == "--gradients" ? "" : "byte_gpt_tiny --world mpi:2";
      const CliResult result = within("verify " + id + " " + flag + " " + quoted(file));
      CHECK(result.exit_code == 2);
      CHECK(result.err.rfind("zeroproof: ", 0) == 0);
    }
  }
  CHECK(within("plan " + quoted(pipe)).exit_code == 2);
  CHECK(within("replay " + quoted(pipe)).exit_code == 2);
}

TEST_CASE("command line: closed or full standard output is an error") {
  for (const char* command : {"list", "doctor", "--help", "verify --help", "--version", "explain",
                              "plan byte_gpt", "verify op/clip/host/x86-64/fill:wide"}) {
    CAPTURE(command);
    const CliResult full = run_shell("\"$ZEROPROOF\" " + std::string(command) + " >/dev/full");
    CHECK(full.exit_code == 2);
    CHECK(full.err.find("standard output could not be written") != std::string::npos);
    const CliResult closed = run_shell("\"$ZEROPROOF\" " + std::string(command) + " >&-");
    CHECK(closed.exit_code == 2);
    CHECK(closed.err.find("standard output is closed") != std::string::npos);
  }
  CHECK(run_shell("\"$ZEROPROOF\" list 2>&- <&- >/dev/null").exit_code == 0);
}

TEST_CASE("command line: a report never replaces a closed stream") {
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  const CliResult result =
      run_shell("\"$ZEROPROOF\" verify op/clip/host/x86-64/fill:wide --report " +
                quoted("text,json:" + report) + " >/dev/null 2>&- <&-");
  CHECK(result.exit_code == 0);
  CHECK(read_file(report).rfind("{", 0) == 0);
}

#ifdef ZP_HAVE_MPI
TEST_CASE("program: mpirun finds its programs without a PATH") {
  const CliResult result = run_shell(
      "env -u PATH \"$ZEROPROOF\" verify "
      "byte_gpt_tiny/adamw/host/stage1/mpi:2/bf16/lockstep");
  CAPTURE(result.out);
  CHECK(result.exit_code == 0);
}
#endif

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they reserve terabytes of addresses
TEST_CASE("program: exhausted memory is reported in one sentence with exit code 3") {
  const CliResult result = run_shell(
      "ulimit -v 200000; \"$ZEROPROOF\" verify byte_gpt/adamw/host/stage2/self/bf16/lockstep "
      "--threads 1");
  CHECK(result.exit_code == 3);
  CHECK(result.err ==
        "zeroproof: out of memory; run fewer cases at once with --jobs, or use a machine with more "
        "memory\n");
}

TEST_CASE("program: a library that ends the program is reported with exit code 3") {
  // There is no memory for the stack of an OpenMP thread, and libgomp calls exit(1).
  const CliResult result = run_shell(
      "ulimit -v 4000000; OMP_STACKSIZE=100G \"$ZEROPROOF\" verify "
      "byte_gpt/adamw/host/stage2/self/bf16/lockstep --threads 2");
  CAPTURE(result.err);
  CHECK(result.exit_code == 3);
  CHECK(result.err.ends_with(
      "zeroproof: a library ended the program (its message is above); raise the system limits, or "
      "run fewer cases at once with --jobs\n"));
}
#endif

}  // namespace command_line_test
