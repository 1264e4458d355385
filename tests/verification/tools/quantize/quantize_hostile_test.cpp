// zeroproof quantize on models whose largest magnitudes are 0, infinite or no numbers, and on disks that are full.

#include <doctest.h>

#include <cstring>
#include <limits>

#include "common/io/safetensors/safetensors.hpp"
#include "tests/verification/compare/tensors/tensor_files.hpp"
#include "tests/verification/tools/quantize/quantize_support.hpp"

namespace quantize_hostile_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

/// The parameters of the model in fp32, those of `changed` all of one value.
void write_model(const std::string& path, const std::string& changed, float value) {
  const SafetensorsReader reader = SafetensorsReader::open(quantize_model());
  std::vector<SafeTensorSpec> specs;
  for (const SafeTensor& tensor : reader.header().tensors) {
    if (tensor.name.starts_with("param.6."))
      specs.push_back({tensor.name.substr(8), SafeDType::f32, tensor.shape});
  }
  SafetensorsWriter writer(path, specs);
  for (const SafeTensorSpec& spec : specs) {
    const SafeTensor& tensor = *reader.find("param.6." + spec.name);
    std::vector<std::uint16_t> halves(static_cast<std::size_t>(tensor.num_bytes()) / 2);
    reader.read(tensor, 0, std::as_writable_bytes(Span<std::uint16_t>(halves)));
    std::vector<float> values;
    for (const std::uint16_t bits : halves) {
      const std::uint32_t word = std::uint32_t{bits} << 16;
      values.push_back(0);
      std::memcpy(&values.back(), &word, sizeof word);
    }
    if (spec.name == changed) std::fill(values.begin(), values.end(), value);
    writer.write(spec.name, std::as_bytes(Span<const float>(values)));
  }
  writer.finish();
}

std::string rule_for(const std::string& method) {
  const std::string format = method == "mse" ? "e4m3" : "int8";
  return "quant_cfg:\n- {quantizer_path: \"*\", cfg: {format: " + format +
         ", calibration: {method: " + method + "}}}\n";
}

std::int64_t files_beside(const std::string& path) {
  return std::distance(std::filesystem::directory_iterator(path.substr(0, path.rfind('/'))),
                       std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("a weight of zeros has an amax of 0: codes 0, and the scale of an amax of 1") {
  const TemporaryFolder folder;
  const std::string wrong = folder.file("zeros.safetensors"), out = folder.file("q.safetensors");
  const std::string name = "block0.mlp.down.weight";
  write_model(wrong, name, 0);
  for (const std::string method : {"max", "percentile", "entropy", "mse"}) {
    CAPTURE(method);
    const CliResult result = run_cli(
        quantize_words(wrong, folder.write("q.yaml", rule_for(method)), quantize_text, out) +
        " --samples 4");
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const SafetensorsReader made = SafetensorsReader::open(out);
    CHECK(values_of<float>(out, name + ".scale") ==
          std::vector<float>{method == "mse" ? 448.0F : 1.0F});
    std::vector<std::byte> codes(made.find(name)->num_bytes());
    made.read(*made.find(name), 0, codes);
    CHECK(std::all_of(codes.begin(), codes.end(),
                      [](std::byte code) { return code == std::byte{0}; }));
  }
}

TEST_CASE("an amax that is infinite or NaN: exit 1, one sentence, nothing written") {
  const TemporaryFolder folder;
  const std::string wrong = folder.file("wrong.safetensors"), out = folder.file("q.safetensors");
  const auto words = [&](const std::string& method) {
    return quantize_words(wrong, folder.write("q.yaml", rule_for(method)), quantize_text, out) +
           " --samples 4 --json " + quoted(folder.file("q.json"));
  };
  for (const float value :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    write_model(wrong, "block1.mlp.up.weight", value);
    for (const std::string method : {"max", "entropy", "mse"})
      expect_quantize_refusal(words(method), "of 'block1.mlp.up.weight' are infinite or NaN", 1);
  }
  // Finite parameters whose products are not finite: the inputs of later layers.
  write_model(wrong, "block0.mlp.up.weight", std::numeric_limits<float>::max());
  for (const std::string method : {"max", "percentile", "mse"})
    expect_quantize_refusal(words(method), "a value that is calibrated is infinite or NaN", 1);
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK_FALSE(std::filesystem::exists(folder.file("q.json")));
}

TEST_CASE("blocks longer than a tensor, more bins than elements, an axis that is not there") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors");
  const auto words = [&](const std::string& payload) {
    const std::string rules =
        folder.write("q.yaml", "quant_cfg:\n- {quantizer_path: \"*\", cfg: {" + payload + "}}\n");
    return quantize_words(quantize_model(), rules, quantize_text, out) + " --samples 2";
  };
  for (const std::string block : {"1x128", "128x128"})
    expect_quantize_refusal(words("format: e4m3, recipe: blockwise, block: " + block),
                            "has the recipe blockwise");
  expect_quantize_refusal(words("format: int8, calibration: {method: max, axis: 7}"), "no axis 7");
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(run_cli(words("format: int8, calibration: {method: percentile, bins: 65536}")).exit_code ==
        0);
}

TEST_CASE("a full disk: whichever file does not fit, one sentence, and no part of it") {
  const TemporaryFolder folder;
  const std::string out = folder.file("q.safetensors"), json = folder.file("q.json");
  const std::string words =
      quantize_words(quantize_model(), quantize_rules, quantize_text, out) + " --samples 2";
  // The maximum number of 512-byte blocks of a file: none, the header alone, half of it.
  for (const char* blocks : {"0", "1", "8"}) {
    CAPTURE(blocks);
    const CliResult full = run_cli("--version >/dev/null; { (ulimit -f " + std::string(blocks) +
                                   "; " + quoted(build_folder() + "/zeroproof") + " " + words +
                                   " 2>&1; echo exit $?) | cat; }");
    CAPTURE(full.out);
    CHECK(full.out.ends_with("\nexit 2\n"));
    CHECK(std::count(full.out.begin(), full.out.end(), '\n') == 2);
    CHECK(files_beside(out) == 0);
  }
  expect_quantize_refusal(words + " --json /dev/full", "/dev/full");
  CHECK_FALSE(std::filesystem::exists(json));
}

}  // namespace quantize_hostile_test
