// zeroproof quantize --json, for every calibration method and format.

#include <doctest.h>

#include <set>

#include "tests/verification/tools/quantize/quantize_support.hpp"

namespace quantize_json_test {

namespace {

using namespace zeroproof::tests;
using Values = nlohmann::json;

Values written(const std::string& rules, const std::string& flags = "") {
  const TemporaryFolder folder;
  const std::string json = folder.file("q.json");
  const CliResult result =
      run_cli(quantize_words(quantize_model(), rules, quantize_text, folder.file("q.safetensors")) +
              " --samples 3 --json " + quoted(json) + flags);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return Values::parse(read_file(json));
}

const std::string every_kind =
    "quant_cfg:\n- {quantizer_path: \"*\", cfg: {format: bf16}}\n"
    "- {quantizer_path: \"*up*\", cfg: {format: e5m2, calibration: {method: mse, axis: 0}}}\n"
    "- {quantizer_path: \"*key*\", cfg: {format: int8, calibration: {method: percentile, bins: "
    "512}}}\n";

}  // namespace

TEST_CASE(
    "quantize JSON: a tensor has scales unless it is only cast, for every method and format") {
  const TemporaryFolder folder;
  std::set<std::string> methods, formats;
  for (const Values& report :
       {written(quantize_rules), written(quantize_rules, " --histogram appended"),
        written(folder.write("q.yaml", every_kind), " --world threads:3"),
        written(
            folder.write("q.yaml", "quant_cfg: [{quantizer_path: \"*\", cfg: {format: fp16}}]"))}) {
    for (const Values& tensor : report.at("tensors")) {
      const Values& payload = tensor.at("payload");
      formats.insert(payload.at("format").get<std::string>());
      const bool cast = !payload.contains("calibration");
      if (!cast) methods.insert(payload.at("calibration").at("method").get<std::string>());
      CHECK((tensor.at("scales") == 0) == cast);
    }
  }
  CHECK(formats == std::set<std::string>{"bf16", "fp16", "e4m3", "e5m2", "int8", "int4"});
  CHECK(methods == std::set<std::string>{"max", "percentile", "entropy", "mse", "smoothquant"});
}

}  // namespace quantize_json_test
