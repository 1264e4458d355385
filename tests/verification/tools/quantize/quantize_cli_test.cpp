// zeroproof quantize: files of equal bytes on any ranks, complete or missing, and refused input.

#include <doctest.h>

#include <bit>
#include <cmath>

#include "common/io/safetensors/safetensors.hpp"
#include "reference/operations.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"
#include "tests/verification/tools/quantize/quantize_support.hpp"

namespace quantize_cli_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;
using Values = nlohmann::json;

const std::string& rules = quantize_rules;
const std::string& text = quantize_text;

const std::string& model() { return quantize_model(); }

std::string command(const std::string& of_model, const std::string& by_rules,
                    const std::string& with_text, const std::string& to) {
  return quantize_words(of_model, by_rules, with_text, to);
}

std::string program() { return quoted(build_folder() + "/zeroproof"); }

/// Runs shell text whose output goes to the files that CliResult reads.
CliResult run_shell(const std::string& script) {
  return run_cli("--version >/dev/null; " + script);
}

void refused_with(const std::string& words, const std::string& sentence, int exit_code = 2) {
  expect_quantize_refusal(words, sentence, exit_code);
}

}  // namespace

TEST_CASE("the same bytes on 1 to 8 ranks, and the same report") {
  const TemporaryFolder folder;
  std::string file, report;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const std::string out = folder.file("q.safetensors"), json = folder.file("q.json");
    const std::string world = ranks == 1 ? "self" : "threads:" + std::to_string(ranks);
    const CliResult result = run_cli(command(model(), rules, text, out) + " --json " +
                                     quoted(json) + " --world " + world);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    if (file.empty()) file = read_file(out), report = read_file(json);
    CHECK(read_file(out) == file);
    CHECK(read_file(json) == report);
  }
  const Values values = Values::parse(report);
  CHECK(values["schema"] == "zeroproof-quantize/1");
  CHECK(values["tensors"].size() == 13);
  CHECK(values["windows"] == 128);  // of the 132 that the text has
  CHECK(values["before"]["perplexity"] != values["after"]["perplexity"]);
  CHECK(std::abs(values["before"]["loss"].get<double>() - values["after"]["loss"].get<double>()) <
        0.05);
}

TEST_CASE("codes and scales decode to the fake-quantized parameters") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors");
  REQUIRE(run_cli(command(model(), rules, text, out)).exit_code == 0);
  const auto after = SafetensorsReader::open(out);
  CHECK(after.metadata().at("quantized") == "zeroproof-quantized/1");
  CHECK(Values::parse(after.metadata().at("payloads")).size() == 13);
  const std::string name =
      "block0.attention.query.weight";  // int8, the largest magnitude of each column
  const auto codes = values_of<std::int8_t>(out, name);
  const auto scale = values_of<float>(out, name + ".scale");
  CHECK(values_of<float>(out, name + ".input_scale").size() == 1);
  std::vector<float> values;
  for (const std::uint16_t bits : values_of<std::uint16_t>(model(), "param.6." + name))
    values.push_back(std::bit_cast<float>(std::uint32_t{bits} << 16));
  REQUIRE(codes.size() == 15 * 15);
  REQUIRE(scale.size() == 15);
  std::vector<std::uint32_t> amax(15, 0);
  for (std::size_t i = 0; i < values.size(); ++i)
    amax[i % 15] = std::max(amax[i % 15], std::bit_cast<std::uint32_t>(std::fabs(values[i])));
  std::vector<float> expected(values.size());
  reference::fake_quantize({}, {{15, 15, 15, 1}}, 0, values, amax, expected);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(static_cast<float>(codes[i]) / scale[i % 15] == expected[i]);
  }
  // Tensors that no rule turned on, and all vectors, are unchanged.
  for (const std::string same : {"token_embedding.weight", "block1.mlp.up.bias"})
    CHECK(values_of<std::byte>(out, same) == values_of<std::byte>(model(), "param.6." + same));
  CHECK(after.find("block0.mlp.up.weight.smooth")->shape == std::vector<std::int64_t>{15});
  CHECK(after.find("head.weight")->dtype == SafeDType::f8_e4m3);
}

TEST_CASE("appended bins are collected on one rank alone") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors");
  CHECK(run_cli(command(model(), rules, text, out) + " --histogram appended").exit_code == 0);
  const std::string appended = read_file(out);
  REQUIRE(run_cli(command(model(), rules, text, out)).exit_code == 0);
  CHECK(read_file(out) != appended);
  refused_with(command(model(), rules, text, out) + " --histogram appended --world threads:2",
               "appended bins were requested on 2 ranks");
}

TEST_CASE("a quantized file is no model") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors");
  REQUIRE(run_cli(command(model(), rules, text, out)).exit_code == 0);
  refused_with(command(out, rules, text, folder.file("again.safetensors")), "is quantized already");
  refused_with("plan " + quoted(out), "is a quantized model");
  refused_with("quantization " + quoted(rules) + " --model " + quoted(out), "is a quantized model");
  CHECK_FALSE(std::filesystem::exists(folder.file("again.safetensors")));
}

TEST_CASE("input that cannot be quantized gives one sentence, and nothing is written") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors");
  const auto with = [&](const std::string& yaml) { return folder.write("rules.yaml", yaml); };
  refused_with(command(model(), rules, folder.write("empty.txt", ""), out),
               "has 0 bytes, 14 are needed");
  refused_with(command(model(), rules, folder.write("short.txt", "a short text"), out),
               "has 12 bytes, 14 are needed");
  refused_with(command(folder.write("no.safetensors", "no"), rules, text, out), "no.safetensors");
  refused_with(command(model(), rules, text, out) + " --samples 0", "--samples is '0'");
  refused_with(command(model(), rules, text, out) + " --world mpi:2", "world mpi:2 has processes");
  refused_with(command(model(), rules, text, model()), "is both input and output");
  const std::string one =
      "matchers:\n  all: {type: glob, pattern: \"*\", config: a, enabled: true}\n";
  refused_with(
      command(model(), with("configs:\n  a: {format: e4m3, recipe: delayed}\n" + one), text, out),
      "has the recipe delayed");
  refused_with(
      command(model(),
              with("configs:\n  a: {format: int8, calibration: {method: smoothquant}}\n" + one),
              text, out),
      "is no weight of a linear layer");
  refused_with(
      command(model(),
              with("configs:\n  a: {format: int8, calibration: {method: max, axis: 2}}\n" + one),
              text, out),
      "has 2 dimensions and no axis 2");
  refused_with(
      command(model(), with("quant_cfg: [{quantizer_path: \"*\", enable: false}]\n"), text, out),
      "no rule turns a matrix");
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("a model of another kind, or one that has diverged") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors"), wrong = folder.file("wrong.safetensors");
  {
    SafetensorsWriter writer(wrong, {{"head.weight", SafeDType::f32, {2}}});
    const std::vector<float> values = {1, 2};
    writer.write("head.weight", std::as_bytes(Span<const float>(values)));
    writer.finish();
  }
  refused_with(command(wrong, rules, text, out), "is no model of a workload");
  const SafetensorsReader reader = SafetensorsReader::open(model());
  std::vector<SafeTensorSpec> specs;
  for (const SafeTensor& tensor : reader.header().tensors) specs.push_back(tensor);
  {
    SafetensorsWriter writer(wrong, specs);
    for (const SafeTensor& tensor : reader.header().tensors) {
      std::vector<std::byte> bytes(tensor.num_bytes());
      reader.read(tensor, 0, bytes);
      if (tensor.name == "param.6.head.weight")
        bytes[0] = std::byte{0x80}, bytes[1] = std::byte{0x7F};
      writer.write(tensor.name, bytes);
    }
    writer.finish();
  }
  refused_with(command(wrong, rules, text, out), "1 of the 3840 elements of 'param.6.head.weight'",
               1);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("a full disk leaves no new file, and the old one stays") {
  const TemporaryFolder folder;
  const std::string out = folder.write("q.safetensors", "before");
  const CliResult full =
      run_shell("(ulimit -f 1; " + program() + " " + command(model(), rules, text, out) + ")");
  CAPTURE(full.err);
  CHECK(full.exit_code == 2);
  CHECK(std::count(full.err.begin(), full.err.end(), '\n') == 1);
  CHECK(read_file(out) == "before");
  CHECK(std::distance(std::filesystem::directory_iterator(out.substr(0, out.rfind('/'))),
                      std::filesystem::directory_iterator()) == 1);
}

}  // namespace quantize_cli_test
