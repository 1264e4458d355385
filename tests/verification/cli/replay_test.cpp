// Saved failures run again, also elsewhere; bundles that cannot run again are refused.

#include <doctest.h>

#include <nlohmann/json.hpp>

#include <span>

#include "common/io/safetensors/safetensors.hpp"

#include "tests/verification/cli/cli_support.hpp"
#include "verification/cli/case_flags.hpp"

namespace replay_test {

namespace {

using namespace zeroproof::tests;
namespace fs = std::filesystem;

constexpr const char* op_id = "op/adamw_update/host/x86-64/fill:training";
constexpr const char* op_fault = "eps-under-bias-correction";

std::vector<fs::path> bundles_in(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) found.push_back(entry.path());
  return found;
}

/// Saves one failing operation and returns its bundle.
fs::path save_one(const TemporaryFolder& folder) {
  const CliResult saved = run_cli(std::string("verify ") + op_id + " --seed 5 --fault " + op_fault +
                                      " --save-failing " + quoted(folder.file("bundles")),
                                  "zeroproof-faults");
  CHECK(saved.exit_code == 1);
  const std::vector<fs::path> bundles = bundles_in(folder.file("bundles"));
  REQUIRE(bundles.size() == 1);
  CHECK(saved.out.find("saved: ") != std::string::npos);
  return bundles.front();
}

/// Edits one member of a bundle.
void edit(const fs::path& bundle, const std::string& key, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(read_file(bundle / "bundle.json"));
  json[key] = value;
  std::ofstream(bundle / "bundle.json") << json.dump();
}

}  // namespace

TEST_CASE("replay: a failed operation fails identically from another folder") {
  const TemporaryFolder folder;
  const fs::path bundle = save_one(folder);
  const auto reader = zeroproof::SafetensorsReader::open((bundle / "tensors.safetensors").string());
  for (const char* name : {"input.grad", "input.master", "reference.master", "candidate.master"}) {
    REQUIRE_MESSAGE(reader.find(name) != nullptr, name);
    CHECK(reader.find(name)->dtype == zeroproof::SafeDType::f32);
  }
  CHECK(reader.find("candidate.grad") == nullptr);  // an input only
  const std::int64_t numel = reader.find("input.grad")->numel();
  std::vector<float> want(numel);
  std::vector<float> got(want.size());
  const auto bytes = [](std::vector<float>& v) {
    return std::as_writable_bytes(std::span<float>(v));
  };
  reader.read(*reader.find("reference.master"), 0, bytes(want));
  reader.read(*reader.find("candidate.master"), 0, bytes(got));
  CHECK(numel > 0);
  CHECK(want != got);
  CHECK(reader.metadata().at("id") == op_id);
  const fs::path moved = folder.file("moved bundle");
  fs::rename(bundle, moved);
  for (const fs::path& what : {moved, moved / "bundle.json"}) {
    const CliResult again = run_cli("replay " + quoted(what.string()), "zeroproof-faults");
    CHECK(again.exit_code == 1);
    CHECK(again.out.find("bundle: the same failure as the saved one") != std::string::npos);
    CHECK(again.out.find("--seed 5") != std::string::npos);
  }
  edit(moved, "failure", "fail: something else");
  CHECK(run_cli("replay " + quoted(moved.string()), "zeroproof-faults")
            .out.find("NOT the saved failure") != std::string::npos);
}

TEST_CASE("replay: the bundle of a training case contains its text and configuration") {
  const TemporaryFolder folder;
  const std::string text = folder.write("my text.txt", read_file(sample_text()));
  const std::string config = folder.write("my.toml", "[optimizer]\nlr = 3e-3\n");
  const std::string id = "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1";
  const CliResult saved =
      run_cli("verify " + id + " --steps 2 --text " + quoted(text) + " --config " + quoted(config) +
                  " --fault decay-after-update --save-failing " + quoted(folder.file("b")),
              "zeroproof-faults");
  CHECK(saved.exit_code == 1);
  fs::remove(text);
  fs::remove(config);
  const std::vector<fs::path> bundles = bundles_in(folder.file("b"));
  REQUIRE(bundles.size() == 1);
  CHECK(read_file(bundles.front() / "text.bin") == read_file(sample_text()));
  CHECK(read_file(bundles.front() / "config.toml") == "[optimizer]\nlr = 3e-3\n");
  const CliResult again = run_cli("replay " + quoted(bundles.front().string()), "zeroproof-faults");
  CHECK(again.exit_code == 1);
  CHECK(again.out.find("text: " + (bundles.front() / "text.bin").string()) != std::string::npos);
  CHECK(again.out.find("config.toml") != std::string::npos);  // in the replay line
  CHECK(again.out.find("bundle: the same failure as the saved one") != std::string::npos);
}

TEST_CASE("replay: the line and the bundle contain a forced instruction set") {
  const TemporaryFolder folder;
  ::setenv("ZP_ISA", "x86-64", 1);
  const std::string id = "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1";
  const CliResult saved =
      run_cli("verify " + id + " --steps 1 --text " + sample_text() +
                  " --fault decay-after-update --save-failing " + quoted(folder.file("b")),
              "zeroproof-faults");
  ::unsetenv("ZP_ISA");
  CHECK(saved.exit_code == 1);
  CHECK(saved.out.find("replay    ZP_ISA=x86-64 /") != std::string::npos);
  const fs::path bundle = bundles_in(folder.file("b")).front();
  CHECK(nlohmann::json::parse(read_file(bundle / "bundle.json")).at("isa") == "x86-64");
  const CliResult again = run_cli("replay " + quoted(bundle.string()), "zeroproof-faults");
  CHECK(again.out.find("replay    ZP_ISA=x86-64 /") != std::string::npos);
  edit(bundle, "isa", "x86-64-v9");
  CHECK(run_cli("replay " + quoted(bundle.string()), "zeroproof-faults").exit_code == 2);
}

TEST_CASE(
    "replay: bundles with a pattern or without an id are refused, control characters are not "
    "printed") {
  const TemporaryFolder folder;
  const fs::path bundle = save_one(folder);
  edit(bundle, "failure", "\x1b[31mred");
  const std::string out = run_cli("replay " + quoted(bundle.string()), "zeroproof-faults").out;
  CHECK(out.find("\\x1b[31mred") != std::string::npos);
  CHECK(out.find('\x1b') == std::string::npos);
  for (const char* id : {"", "*", "op/adamw_update", "op/adamw_update/host/x86-64/*", "\x1b[31m"}) {
    CAPTURE(id);
    edit(bundle, "id", id);
    const CliResult refused = run_cli("replay " + quoted(bundle.string()), "zeroproof-faults");
    CHECK(refused.exit_code == 2);
    CHECK(refused.out.empty());
    CHECK(refused.err.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("replay: accepts every flag that a replay line can have") {
  using zeroproof::verification::CaseFlag;
  const std::string help = run_cli("replay --help").out;
  int flags = 0;
  for (const CaseFlag& flag : zeroproof::verification::case_flags()) {
    if (flag.replay == CaseFlag::Replay::none && flag.name != std::string("--offload-place"))
      continue;
    CAPTURE(flag.name);
    CHECK(help.find(flag.name) != std::string::npos);
    ++flags;
  }
  CHECK(flags > 15);
}

TEST_CASE("replay: a bundle has the settings of its run") {
  const TemporaryFolder folder;
  const std::string id = "byte_gpt_tiny/adamw/host/stage1/self/bf16/lockstep/bucket:4096/omp:1";
  const CliResult saved =
      run_cli("verify " + id + " --steps 1 --norm exact --max-norm 0.5 --fault " +
                  "decay-after-update --save-failing " + quoted(folder.file("b")),
              "zeroproof-faults");
  CHECK(saved.exit_code == 1);
  const fs::path bundle = bundles_in(folder.file("b")).front();
  const CliResult again = run_cli("replay " + quoted(bundle.string()), "zeroproof-faults");
  CAPTURE(again.err);
  CHECK(again.out.find("bundle: the same failure as the saved one") != std::string::npos);
}

TEST_CASE("replay: the printed line works in any folder") {
  const TemporaryFolder folder;
  const CliResult failing =
      run_cli(std::string("verify ") + op_id + " --fault " + op_fault, "zeroproof-faults");
  const std::size_t at = failing.out.find("  replay    ");
  REQUIRE(at != std::string::npos);
  const std::string line = failing.out.substr(at + 12, failing.out.find('\n', at) - at - 12);
  CAPTURE(line);
  const std::string command = "cd / && " + line + " >" + quoted(folder.file("out")) + " 2>&1";
  const int status = std::system(command.c_str());
  CHECK(WEXITSTATUS(status) == 1);
  const std::string again = read_file(folder.file("out"));
  CHECK(again.find(op_id) != std::string::npos);
  CHECK(again.find("add --save-failing FOLDER") != std::string::npos);
}

TEST_CASE("replay: the line of a fault on a device shows the same failure, from any folder") {
  const TemporaryFolder folder;
  const auto failure_of = [](const std::string& out) {
    const std::size_t at =
        out.find("first at  step 3  phase prepare  rank 0  buffer step_scalars: differs");
    REQUIRE_MESSAGE(at != std::string::npos, out);
    return out.substr(at, out.find('\n', at) - at);
  };
  const CliResult failing = run_cli(
      "verify byte_gpt_tiny/adamw/device-graph/stage2/threads:2/fp16/whole/bucket:4096/omp:1 "
      "--steps 3 "
      "--text " +
          sample_text() + " --fault t-frozen-at-capture",
      "zeroproof-faults");
  CHECK(failing.exit_code == 1);
  const std::size_t at = failing.out.find("  replay    ");
  REQUIRE(at != std::string::npos);
  const std::string line = failing.out.substr(at + 12, failing.out.find('\n', at) - at - 12);
  CHECK(line.find("zeroproof-faults replay ") != std::string::npos);
  const std::string command = "cd / && " + line + " >" + quoted(folder.file("out")) + " 2>&1";
  CHECK(WEXITSTATUS(std::system(command.c_str())) == 1);
  CHECK(failure_of(read_file(folder.file("out"))) == failure_of(failing.out));
}

TEST_CASE("replay: older bundles are never overwritten") {
  const TemporaryFolder folder;
  save_one(folder);
  const std::string into = " --save-failing " + quoted(folder.file("bundles"));
  const CliResult again =
      run_cli(std::string("verify ") + op_id + " --fault " + op_fault + into, "zeroproof-faults");
  CHECK(again.exit_code == 1);
  CHECK(again.err.empty());
  const std::vector<fs::path> bundles = bundles_in(folder.file("bundles"));
  CHECK(bundles.size() == 2);
  for (const fs::path& bundle : bundles)
    CHECK(bundle.filename().string().rfind("op-adamw_update", 0) == 0);
}

TEST_CASE("replay: saves nothing without a failure, and refuses unusable folders first") {
  const TemporaryFolder folder;
  const std::string verify = std::string("verify ") + op_id + " --save-failing ";
  CHECK(run_cli(verify + quoted(folder.file("b"))).exit_code == 0);
  CHECK_FALSE(fs::exists(folder.file("b")));
  expect_refusal(run_cli(verify + "/dev/null/b"), "/dev/null/b");
  expect_refusal(run_cli(verify + quoted(folder.write("file", "x"))), "cannot be written");
}

TEST_CASE("replay: unusable bundles are refused") {
  const TemporaryFolder folder;
  const fs::path bundle = save_one(folder);
  const std::string words = "replay " + quoted(bundle.string());
  const std::string good = read_file(bundle / "bundle.json");
  const auto refused = [&](const std::string& content, const std::string& must_mention) {
    std::ofstream(bundle / "bundle.json", std::ios::binary) << content;
    expect_refusal(run_cli(words, "zeroproof-faults"), must_mention);
  };
  refused("", "is damaged");
  refused(good.substr(0, good.size() / 2), "is damaged");
  refused("[1, 2]", "is damaged");
  refused("{}", "another schema");
  refused(std::string(100000, '['), "is damaged");
  refused(std::string(2 << 20, ' '), "is too large");
  const auto edited = [&](const std::string& key, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(good);
    json[key] = value;
    return json.dump();
  };
  refused(edited("schema", "zeroproof-bundle/9"), "another schema");
  refused(edited("contract", 1), "numeric contract 1");
  refused(edited("contract", "two"), "is damaged");
  std::ofstream(bundle.parent_path() / "outside.toml") << "[run]\nsteps = 3\n";
  refused(edited("config_file", "../outside.toml"), "has no file");
  refused(edited("text_file", "text.bin"), "has no file");
  refused(edited("flags", {"--banana", "1"}), "--banana");
  refused(edited("flags", {"--seed"}), "--seed");
  refused(edited("id", "op/no_such_op/host/x86-64/fill:wide"), "no_such_op");
  std::ofstream(bundle / "bundle.json", std::ios::binary) << good;
  expect_refusal(run_cli(words), "zeroproof-faults");  // a program without faults
  expect_refusal(run_cli("replay " + quoted(folder.file(""))), "no bundle.json");
}

TEST_CASE("replay: ids of a bundle") {
  CHECK(run_cli(std::string("replay ") + op_id).exit_code == 0);
  expect_refusal(run_cli("replay no_such_thing"), "neither a case id nor a saved bundle");
  expect_refusal(run_cli("replay 'op/clip/*'"), "replay runs exactly one");
  CHECK(run_cli("replay").exit_code == 2);
}

}  // namespace replay_test
