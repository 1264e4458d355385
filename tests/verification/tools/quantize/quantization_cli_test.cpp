// zeroproof quantization: tables as wide as a terminal, JSON, flags.

#include <doctest.h>

#include "tests/verification/cli/cli_support.hpp"

namespace quantization_cli_test {

namespace {

using namespace zeroproof::tests;
using Values = nlohmann::json;

const std::string examples = source_folder() + "/verification/tools/quantize/examples/";
const std::string layers = " --model " + quoted(examples + "twelve_layers.toml") + " ";

/// Of the longest line; a character that needs several bytes is one.
std::size_t columns(const std::string& text) {
  std::size_t most = 0;
  for (const std::string& line : zeroproof::verification::lines_of(text)) {
    const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
    most =
        std::max(most, static_cast<std::size_t>(std::count_if(line.begin(), line.end(), begins)));
  }
  return most;
}

Values written(const std::string& flags) {
  const TemporaryFolder folder;
  const CliResult result =
      run_cli("quantization " + flags + " --json " + quoted(folder.file("q.json")));
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return Values::parse(read_file(folder.file("q.json")));
}

}  // namespace

TEST_CASE("the tables fit a terminal, with any names") {
  const TemporaryFolder folder;
  const std::string longest(180, 'x');
  const std::string model = folder.write(
      "a long name of a model with words in it.toml",
      "[[tensor]]\nname = \"" + longest +
          ".{i}.weight\"\nshape = [2]\nrepeat = 12\n"
          "[[tensor]]\nname = "
          "\"h.{i}."
          "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4"
          "\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4.weight\"\nshape = [2]\nrepeat = 12\n");
  const std::string rules = folder.write(
      "q.yaml", "configs:\n  " + longest +
                    ": {format: e4m3, recipe: blockwise, block: 128x128}\nmatchers:\n  \"" +
                    longest + "\": {type: glob, pattern: \"*" + longest +
                    ".1*\", config: " + longest +
                    ", enabled: true}\n  z: {type: glob, pattern: \"*\", config: " + longest +
                    ", enabled: true}\n");
  for (const std::string& words :
       {quoted(rules) + " --model " + quoted(model), quoted(examples + "fp8_layers.yaml") + layers,
        quoted(examples + "int8_weights.yaml") + " --model byte_gpt", std::string("--fields")}) {
    const CliResult result = run_cli("quantization " + words);
    CAPTURE(result.out);
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(columns(result.out) <= 80);
    CHECK(result.err.empty());
  }
}

TEST_CASE("the trap is shown, with the rules that decide") {
  const CliResult result = run_cli("quantization " + quoted(examples + "fp8_layers.yaml") + layers);
  CHECK(result.out.find("'*layers.1*' takes layers.10, layers.11 besides layers.1, for\n") !=
        std::string::npos);
  CHECK(result.out.find(
            "model.layers.10.mlp.up.weight      bf16                   rule 2, before 3, 4\n") !=
        std::string::npos);
  CHECK(result.out.find(
            "embed.weight                       -                      no rule matches\n") !=
        std::string::npos);
  const TemporaryFolder folder;
  const CliResult back =
      run_cli("quantization " +
              quoted(folder.write("q.yaml",
                                  "quant_cfg:\n- {quantizer_path: \"*\", cfg: {format: fp16}}\n"
                                  "- {quantizer_path: \"*down*\", enable: false}\n"
                                  "- {quantizer_path: \"*0.mlp.down*\", enable: true}\n")) +
              layers);
  CHECK(back.out.find(
            "model.layers.0.mlp.down.weight     fp16                   rule 3 on 1, over 2\n") !=
        std::string::npos);
  CHECK(
      back.out.find("model.layers.2.mlp.down.weight     off                    rule 2, over 1\n") !=
      std::string::npos);
}

TEST_CASE("quantization JSON: semantics, tensors, rules and traps") {
  const Values megatron = written(quoted(examples + "fp8_layers.yaml") + layers);
  CHECK(megatron.at("semantics") == "megatron");
  CHECK(megatron.at("tensors").size() == 25);
  CHECK(megatron.at("tensors").at(1).at("layer") == 0);
  CHECK(megatron.at("tensors").at(0).at("payload").is_null());
  CHECK(megatron.at("traps").at(0).at("line") == 22);
  CHECK(megatron.at("rules").at(3).at("payload").at("amax") == "most_recent");
  const Values modelopt =
      written(quoted(examples + "int8_weights.yaml") + " --model byte_gpt_tiny");
  CHECK(modelopt.at("rules").at(0).at("config").is_null());
  CHECK(modelopt.at("tensors").at(0).at("flag_rule") == 4);
}

TEST_CASE("flags") {
  const std::string rules = quoted(examples + "fp8_layers.yaml");
  CHECK(run_cli("quantization " + rules + layers + "--semantics megatron").exit_code == 0);
  expect_refusal("quantization " + rules + layers + "--semantics modelopt",
                 "there is no field 'configs'");
  expect_refusal("quantization " + rules + layers + "--semantics megatrom", "megatron");
  expect_refusal("quantization", "no file was named");
  expect_refusal("quantization " + rules, "no model was named");
  expect_refusal("quantization " + rules + " --model nothing", "'nothing' is no model");
  expect_refusal("quantization --fields " + rules, "--fields was given with something else");
  expect_refusal("quantization " + rules + layers + "--json /proc/none/q.json",
                 "cannot be written");
  expect_refusal("quantization " + rules + layers + "--json " + rules, "both input and output");
  expect_refusal("quantizaton " + rules, "did you mean quantization?");
}

}  // namespace quantization_cli_test
