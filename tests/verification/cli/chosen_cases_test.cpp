// From flags to cases: flags that do not apply are refused, cases requested by name must run, and
// list prints the cases that verify runs.

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/parallel_for.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "tests/verification/cli/cli_support.hpp"
#include "verification/cases/suites/estimate.hpp"
#include "verification/cli/program/capabilities.hpp"
#include "verification/cli/program/text_lines.hpp"

namespace chosen_cases_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using namespace zeroproof::verification;

/// Ids of the results in a report.
std::vector<std::string> ids_run(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string report = folder.file("report.json");
  run_cli("verify " + arguments + " --report " + quoted("json:" + report));
  const auto json = nlohmann::json::parse(read_file(report));
  std::vector<std::string> ids;
  for (const char* list : {"cases", "checks"}) {
    if (!json.contains(list)) continue;
    for (const auto& one : json.at(list)) ids.push_back(one.at("id"));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

double seconds_of(const std::vector<std::string>& patterns, std::int64_t steps = 6) {
  VerifyOptions options;
  options.patterns = patterns;
  options.overrides = [steps](RunConfig& config) { config.steps = steps; };
  return estimated_seconds(options, select_cases(options));
}

}  // namespace

TEST_CASE("chosen cases: a flag that does not apply to a case is an error") {
  for (const char* flag :
       {"--world self", "--layout megatron", "--steps 3", "--stage 1", "--dtype bf16",
        "--recipe sgd", "--mode free", "--bucket 1024", "--threads 1", "--order strided",
        "--sum tree", "--grid 1x1x1", "--instances 1", "--persistent 5", "--overlap",
        "--norm exact", "--oversubscribe", "--hostfile hosts", "--gradients file"}) {
    for (const char* pattern : {"'op/*'", "adamw_update", "'lbfgs/*'", "controls"}) {
      CAPTURE(pattern);
      expect_refusal(std::string("verify ") + pattern + " " + flag, "does not apply to");
    }
  }
  const std::string id = "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1";
  expect_refusal("verify " + id + " --world threads:3", "--world does not apply to '" + id);
  expect_refusal("verify " + id + " --impl host", "--impl does not apply to");
  expect_refusal("list " + id + " --stage 2", "--stage does not apply to");
  expect_refusal("verify byte_gpt_tiny 'op/*' --steps 3", "--steps does not apply to 'op/*'");
  expect_refusal("verify 'op/*' --text x", "--text does not apply to");
  expect_refusal("verify controls --impl host", "--impl does not apply to");
  expect_refusal("verify 'op/*' --impl host-fused", "use host, device or plugin");
  expect_refusal("verify 'lbfgs/*' --impl device", "L-BFGS runs on the host");
  expect_refusal("replay op/clip/host/x86-64/fill:wide --steps 3", "--steps does not apply to");
  expect_refusal("verify byte_gpt_tiny --world self --hostfile /dev/null/x",
                 "--hostfile was given and no case runs");
  CHECK(run_cli("list " + id + " --steps 3 --norm exact --seed 5").exit_code == 0);
  CHECK(run_cli("list 'op/*' --impl host --seed 5").exit_code == 0);
  CHECK(run_cli("list 'lbfgs/*' --micro-batches 3 --impl host").exit_code == 0);
  CHECK(run_cli("list controls --seed 5").exit_code == 0);
}

TEST_CASE("chosen cases: an explicitly named case that cannot run is an error") {
  if (!device_answers()) {
    expect_refusal("verify byte_gpt_tiny --impl device", "cannot run here", 3);
    expect_refusal("verify byte_gpt_tiny --impl host,device --steps 1", "cannot run here", 3);
    expect_refusal("list byte_gpt_tiny --impl device", "cannot run here", 3);
    expect_refusal("verify byte_gpt_tiny/adamw/device/stage1/self/bf16/lockstep/bucket:4096/omp:1",
                   "cannot run here", 3);
    expect_refusal("verify byte_gpt_tiny --world nccl:2", "world nccl:2 cannot run here", 3);
    expect_refusal("list byte_gpt_tiny --world self,nccl:2", "each of its ranks needs a device", 3);
    expect_refusal("verify byte_gpt_tiny --world nccl:2 --impl device-graph", "cannot run here", 3);
    expect_refusal("verify op/clip/device/cuda/fill:wide",
                   "op/clip/device/cuda/fill:wide was requested", 3);
    expect_refusal("verify 'op/clip/*' --impl device", "cannot run here", 3);
    expect_refusal("verify 'op/clip/device/*'", "none of the requested cases can run", 3);
    CHECK(run_cli("verify 'op/clip/*/fill:wide'").exit_code == 0);  // among others they are skipped
  }
  if (!mpi_answers()) {
    const TemporaryFolder folder;
    expect_refusal("verify byte_gpt_tiny --world self,mpi:2", "this build has no MPI", 3);
    expect_refusal("verify byte_gpt_tiny/adamw/host/stage1/mpi:2/bf16/lockstep/bucket:4096/omp:1",
                   "no MPI", 3);
    expect_refusal("list byte_gpt_tiny --config " +
                       quoted(folder.write("a.toml", "[run]\nworlds = [\"mpi:3\"]\n")),
                   "no MPI", 3);
    CHECK(run_cli("list byte_gpt_tiny").exit_code == 0);
  }
}

TEST_CASE(
    "chosen cases: a setting of the file that a recipe replaces is refused, or leaves the recipe "
    "out") {
  const TemporaryFolder folder;
  int files = 0;
  const auto with = [&](const std::string& toml) {
    return " --config " + quoted(folder.write("run" + std::to_string(++files) + ".toml", toml));
  };
  const std::string amsgrad = with("[optimizer]\namsgrad = true\n");
  const std::string place = " --impl host --world self --stage 0 --dtype bf16";
  const std::string id = "byte_gpt_tiny/adam/host/stage0/self/bf16/lockstep/bucket:4096/omp:1";
  expect_refusal("list byte_gpt_tiny --recipe adam" + place + amsgrad,
                 "recipe adam replaces optimizer.amsgrad");
  expect_refusal("verify " + id + amsgrad, "recipe adam replaces optimizer.amsgrad");
  const auto ids = [&](const std::string& flags) {
    const CliResult list = run_cli("list byte_gpt_tiny" + place + flags);
    CHECK(list.exit_code == 0);
    return list.out;
  };
  CHECK(ids(" --recipe adamw" + amsgrad).find("/adamw/") != std::string::npos);
  CHECK(ids(" --recipe adam" + with("[optimizer]\namsgrad = true\nrule = \"adam\"\n"))
            .find("/adam/") != std::string::npos);
  const std::string every = ids(""), remaining = ids(amsgrad);
  for (const char* recipe : {"/adamw/", "/adamw-amsgrad/", "/adam-amsgrad-max/"}) {
    CHECK(every.find(recipe) != std::string::npos);
    CHECK(remaining.find(recipe) != std::string::npos);
  }
  CHECK(every.find("/adam/") != std::string::npos);
  CHECK(remaining.find("/adam/") == std::string::npos);
  expect_refusal("list byte_gpt_tiny --recipe adamw-amsgrad" + place +
                     with("[optimizer]\nweight_decay = 0.1\n"),
                 "replaces optimizer.weight_decay");
  // Recipes run with the rule of their name.
  for (const char* rule : {"sgd", "lion", "muon"}) {
    const std::string config = with("[optimizer]\nrule = \"" + std::string(rule) + "\"\n");
    CHECK(ids(config).find("/" + std::string(rule) + "/") != std::string::npos);
    CHECK(ids(config).find("/adamw") == std::string::npos);
    expect_refusal("list byte_gpt_tiny --recipe adamw-groups" + place + config,
                   "recipe adamw-groups replaces optimizer.rule");
  }
  // Used by the recipe, the same value, or the default: nothing is ignored.
  for (const char* toml : {"[optimizer]\nlr = 1e-3\n", "[optimizer]\nmaximize = true\n",
                           "[optimizer]\nweight_decay = 0.01\nrule = \"adamw\"\n"})
    CHECK(ids(" --recipe lion-max" + with(toml)).find("/lion-max/") != std::string::npos);
  CHECK(run_cli("list byte_gpt_tiny" + place + " --config " +
                quoted(source_folder() + "/verification/cases/config/defaults.toml"))
            .exit_code == 0);
}

TEST_CASE("chosen cases: ranks on the host share windows, as production's do by default") {
  const std::string by_default(name(OptimizerSetup{}.windows));
  const auto windows_of = [](const std::string& flags) {
    const CliResult list = run_cli(
        "list byte_gpt_tiny --recipe adamw --dtype bf16 --impl host --stage 0 --world " + flags);
    CHECK(list.exit_code == 0);
    const std::size_t at = list.out.find("/windows:");
    return at == std::string::npos
               ? "off"
               : list.out.substr(at + 9, list.out.find_first_of("/\n ", at + 9) - at - 9);
  };
  CHECK(windows_of("threads:3") == by_default);
  CHECK(windows_of("threads:3 --windows off") == "off");
  CHECK(windows_of("self") == "off");
  // Offloaded gradients of stage 0 cannot be in windows: messages, but not for windows by name.
  CHECK(windows_of("threads:3 --offload 1 --offload-grads on") == "off");
  for (const char* named : {"on", "params"}) {
    expect_refusal("list byte_gpt_tiny --impl host --stage 0 --world threads:3 --windows " +
                       std::string(named) + " --offload 1 --offload-grads on",
                   "use --windows off");
  }
}

TEST_CASE("chosen cases: more than four processes per core need a flag") {
  const int most = 4 * available_cores();
  // one short case, in case it is started after all
  const std::string many =
      "byte_gpt_tiny --recipe adamw --stage 1 --dtype bf16 --impl host --mode free --steps 1 "
      "--world mpi:" +
      std::to_string(most + 1);
  if (!mpi_answers()) return;
  expect_refusal("verify " + many, "add --oversubscribe");
  expect_refusal("list " + many, "add --oversubscribe");
  CHECK(run_cli("list " + many + " --oversubscribe").exit_code == 0);
  CHECK(run_cli("list byte_gpt_tiny --world mpi:" + std::to_string(most)).exit_code == 0);
  CHECK(run_cli("list byte_gpt_tiny --world threads:" + std::to_string(most + 1)).exit_code == 0);
}

TEST_CASE("chosen cases: a pattern that selects nothing is an error, whatever else matches") {
  const std::string good = "op/clip/host/x86-64/fill:wide ";
  for (const std::string command : {"list ", "verify "}) {
    CAPTURE(command);
    expect_refusal(command + good + "nope", "no case matches 'nope'", 4);
    expect_refusal(command + "nope " + good, "no case matches 'nope'", 4);
    expect_refusal(command + good + "byte_gtp", "did you mean byte_gpt?", 4);
    expect_refusal(command + good + "'op/*/hots/*'", "no case matches 'op/*/hots/*'", 4);
    expect_refusal(command + good + "resume/adamw/1:0-to-1:0/bf16",
                   "write the complete id, as in "
                   "resume/adamw/1:0-to-1:0/bf16/contract-to-contract/after:3\n",
                   4);
    expect_refusal(command + good + "byte_gpt_tiny/adamw/host/stage1/threads:7",
                   "write the complete id, as in byte_gpt_tiny/adamw/host/stage1/threads:7/", 4);
    for (const char* pattern :
         {"byte_gpt_tiny/adamww/host/stage1/self/bf16/lockstep/bucket:4096/omp:1",
          "byte_gpt_tiny/adamww", "'byte_gpt_tiny/adamww/*'", "resume/adamww",
          "resume/adamww/3:2-to-2:1/fp16/contract-to-contract/after:3"}) {
      CAPTURE(pattern);
      expect_refusal(command + good + pattern, "recipe 'adamww' does not exist");
      expect_refusal(command + pattern, "did you mean adamw?");
    }
    expect_refusal(command + "byte_gpt_tiny/adamw/hots/stage1", "did you mean host?");
    expect_refusal(command + "byte_gtp/adamww/host/stage1/self/bf16/lockstep/bucket:4096/omp:1",
                   "did you mean byte_gpt?");
  }
  CHECK(run_cli("list byte_gpt_tiny/adam").exit_code == 0);  // the beginning of a recipe
  CHECK(run_cli("list byte_gpt_tiny/adamw/ho").exit_code == 0);
}

TEST_CASE("list: refuses what verify refuses, in the same words") {
  const TemporaryFolder folder;
  const std::string groups =
      quoted(folder.write("groups.toml", "[[param_group]]\nname = \"a\"\nmatch = [\"nowhere\"]\n"));
  const std::string text = quoted(folder.write("short.txt", "too short"));
  const std::string absent = quoted(folder.file("absent.toml"));
  for (const std::string& arguments : std::vector<std::string>{
           "resume/nope/1:0-to-2:1/fp16/contract-to-contract/after:3",
           "resume/adamw/1:0-to-2:1/fp16/contract-to-contract/after:9",
           "resume/adamw+norm:nope/1:0-to-2:1/fp16/contract-to-contract/after:3",
           "'resume/*' --steps 2", "resume --text " + text,
           "byte_gpt_tiny --recipe adamw --config " + groups, "byte_gpt_tiny --text " + text,
           "byte_gpt_tiny --recipe sgd --dtype bf16 --world threads:8 --grid 1x1x8",
           "lbfgs --text " + text, "op/clip --config " + absent, "controls --config " + absent}) {
    CAPTURE(arguments);
    const CliResult listed = run_cli("list " + arguments);
    const CliResult verified = run_cli("verify " + arguments);
    expect_refusal(verified, "");
    CHECK(listed.exit_code == verified.exit_code);
    CHECK(listed.out.empty());
    CHECK(listed.err == verified.err);
  }
}

TEST_CASE("nightly: list: prints exactly the cases that verify runs") {
  for (const std::string arguments :
       {"byte_gpt_tiny --recipe adamw,sgd --world self --stage 0,2 --dtype bf16 --steps 1",
        "'byte_gpt_tiny/*/host/stage1/self/fp16/*' --steps 1", "'op/clip/*' op/clip",
        "'op/clip*/fill:wide' clip", "'lbfgs/rosenbrock/armijo/self/*'",
        "controls/nan-payloads 'op/clip/host/x86-64/fill:wide'"}) {
    CAPTURE(arguments);
    std::vector<std::string> listed = lines_of(run_cli("list " + arguments).out);
    std::sort(listed.begin(), listed.end());
    CHECK_FALSE(listed.empty());
    CHECK(listed == ids_run(arguments));
  }
  for (const std::string& id : lines_of(run_cli("list").out))
    CHECK(id.rfind("byte_gpt/", 0) == 0);  // the main job
}

TEST_CASE("list: prints their number and the estimated time") {
  const CliResult list =
      run_cli("list byte_gpt_tiny 'op/clip/host/*' controls --recipe adamw --world self --seed 3");
  CHECK(list.exit_code == 2);  // --recipe is not for operations
  const CliResult mixed =
      run_cli("list 'byte_gpt_tiny/adamw/*/self/*' 'op/clip/host/x86-64/*' controls lbfgs");
  CAPTURE(mixed.err);
  const std::size_t lines = lines_of(mixed.out).size();
  CHECK(mixed.err.rfind(std::to_string(lines) + " cases: ", 0) == 0);
  for (const char* part :
       {" training, ", " op, ", " lbfgs, ", " controls; about ", " s (an estimate)\n"})
    CHECK_MESSAGE(mixed.err.find(part) != std::string::npos, part);
  CHECK(run_cli("list op/clip/host/x86-64/fill:wide").err ==
        "1 case: 1 op; about 1 s (an estimate)\n");
  CHECK(run_cli("list").err.find(" min (an estimate)") == std::string::npos);
  const long minutes = std::lround(seconds_of({"byte_gpt"}, 400) / 60);
  CHECK(minutes > 2);
  CHECK(run_cli("list byte_gpt --steps 400")
            .err.find("about " + std::to_string(minutes) + " min (an") != std::string::npos);
}

TEST_CASE("list: more cases, steps and ranks take longer") {
  const double one =
      seconds_of({"byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1"});
  CHECK(one > 0);
  CHECK(seconds_of({"byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1"}, 60) >
        5 * one);
  CHECK(seconds_of({"byte_gpt_tiny/adamw/host/stage1/threads:3/bf16/lockstep/bucket:4096/omp:1"}) >
        one);
  CHECK(seconds_of({"byte_gpt_tiny/adamw/host/stage1/mpi:2/bf16/lockstep/bucket:4096/omp:1"}) >
        one);
  CHECK(seconds_of({"byte_gpt/adamw/host/stage1/self/bf16/lockstep/bucket:262144/omp:1"}) >
        10 * one);
  CHECK(seconds_of({"op/*"}) > seconds_of({"op/clip/*"}));
  CHECK(seconds_of({"lbfgs"}) > 0);
  CHECK(seconds_of({"controls"}) > 0);
}

}  // namespace chosen_cases_test
