// Checkpoints of 8-bit parameters whose scales or histories are not those of their masters (R24): a
// sentence, exit 7.

#include <doctest.h>

#include <filesystem>
#include <fstream>

#include "common/io/checkpoint/checkpoint_manifest.hpp"
#include "tests/verification/cli/cli_support.hpp"

using namespace zeroproof;
using namespace zeroproof::tests;

namespace fs = std::filesystem;

namespace {

/// A run of three ranks with a checkpoint of every step.
class ScaledRun {
 public:
  explicit ScaledRun(std::string recipe, const std::string& settings = "")
      : recipe_(std::move(recipe)), folder_(TemporaryFolder::in_memory()) {
    std::ofstream(folder_.file("settings.toml")) << settings;
    REQUIRE(run_cli(train("good", "--world threads:3 --stage 2 --steps 4 --save-every 1 --keep 4"))
                .exit_code == 0);
  }

  std::string train(const std::string& folder, const std::string& words) const {
    return "train --workload byte_gpt_tiny --recipe " + recipe_ + " " + words + " --checkpoint " +
           quoted(folder_.file(folder)) + " " + quoted(folder_.file("settings.toml"));
  }

  /// Continues from `step` on two ranks; first replaces `text` of the state's `key` by the result
  /// of change, "" removes it.
  CliResult resumed(int step, const std::string& key = "",
                    const std::function<std::string(std::string)>& change = {}) const {
    fs::remove_all(folder_.file("bad"));
    fs::copy(folder_.file("good"), folder_.file("bad"), fs::copy_options::recursive);
    for (int later = step + 1; later <= 4; ++later) fs::remove_all(checkpoint(later));
    if (change) edit(checkpoint(step), key, change);
    return run_cli(train("bad", "--world threads:2 --stage 1 --steps 5 --resume"));
  }

 private:
  fs::path checkpoint(int step) const {
    return fs::path(folder_.file("bad")) / ("step-0000000" + std::to_string(step));
  }

  /// An edit with recomputed hashes.
  static void edit(const fs::path& folder, const std::string& key,
                   const std::function<std::string(std::string)>& change) {
    const fs::path path = folder / "manifest.json";
    CheckpointManifest manifest = parse_manifest(read_file(path), path.string());
    const Json about = manifest.about;
    Json state = Json::object();
    for (const Json::Member& member : about.at("state").members()) {
      if (member.name != key) {
        state[member.name] = member.value;
        continue;
      }
      const std::string text = change(member.value.get<std::string>());
      if (!text.empty()) state[key] = text;
    }
    manifest.about["state"] = state;
    std::ofstream(path, std::ios::binary) << manifest_text(manifest);
  }

  std::string recipe_;
  TemporaryFolder folder_;
};

/// The word at `index` becomes another one.
std::function<std::string(std::string)> with_word(std::size_t index, const std::string& word) {
  return [=](std::string text) { return text.replace(8 * index, 8, word); };
}

}  // namespace

TEST_CASE("bad scales: saved scales are accepted, from every step, with every recipe") {
  for (const char* recipe : {"fp8-current", "fp8-delayed", "fp8-blockwise", "fp8-mxfp8"}) {
    CAPTURE(recipe);
    const ScaledRun run(recipe);
    for (int step = 1; step <= 4; ++step) {
      CAPTURE(step);
      const CliResult result = run.resumed(step);
      CAPTURE(result.err);
      CHECK(result.exit_code == 0);
    }
  }
}

TEST_CASE("bad scales: before their first step dequantised masters need not match the scales") {
  // Scales belong to the previous values; the largest value of a block, rounded, can double its
  // scale.
  const ScaledRun run("fp8-blockwise --dtype e5m2",
                      "[run]\noverflow_step = 1\ninitial_state = \"zero\"\n"
                      "[scaling]\ninitial_master = \"dequantised\"\n");
  const CliResult result = run.resumed(1);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("bad scales: missing, of another recipe, or not of these masters") {
  const ScaledRun mxfp8("fp8-mxfp8");
  const auto gone = [](const std::string&) { return std::string(); };
  const auto shorter = [](const std::string& text) { return text.substr(8); };
  expect_refusal(mxfp8.resumed(4, "param_scale", gone),
                 "has 0 numbers in param_scale and its settings make", 7);
  expect_refusal(mxfp8.resumed(4, "param_scale", shorter),
                 "numbers in param_scale and its settings make", 7);
  // Half of a scale, or twice the scale.
  expect_refusal(mxfp8.resumed(4, "param_scale", with_word(0, "3f000000")),
                 "has a scale that its masters do not make", 7);
  const ScaledRun delayed("fp8-delayed");
  expect_refusal(delayed.resumed(4, "amax_history", gone), "has 0 numbers in amax_history", 7);
  expect_refusal(delayed.resumed(4, "amax_history", shorter), "numbers in amax_history", 7);
  expect_refusal(delayed.resumed(4, "amax_history", with_word(0, "3f123456")),
                 "an amax in its history that is not the one of its masters", 7);
  expect_refusal(delayed.resumed(4, "amax_history", with_word(2, "7fabcdef")),
                 "an amax in its history that no value has", 7);
  for (const char* scale : {"00000000", "bf800000", "7f800000", "7fc00000", "00000001"})
    expect_refusal(delayed.resumed(4, "param_scale", with_word(0, scale)),
                   "has a scale that no amax makes", 7);
  expect_refusal(delayed.resumed(4, "param_scale", with_word(0, "7e000000")),
                 "has a scale that its history does not make", 7);
}
