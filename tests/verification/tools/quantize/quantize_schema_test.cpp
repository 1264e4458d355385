// zeroproof quantize --json: what quantize.schema.json says, and it says enough.

#include <doctest.h>

#include <set>

#include "tests/verification/cli/every_object.hpp"
#include "tests/verification/cli/json_schema.hpp"
#include "tests/verification/tools/quantize/quantize_support.hpp"

namespace {

using namespace zeroproof::tests;
using Values = nlohmann::json;

JsonSchema schema() {
  return JsonSchema(
      Values::parse(read_file(source_folder() + "/verification/tools/quantize/calibration/quantize.schema.json")));
}

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
    "- {quantizer_path: \"*key*\", cfg: {format: int8, calibration: {method: percentile, bins: 512}}}\n";

}  // namespace

TEST_CASE("a report is what its schema says, for every method and format") {
  const TemporaryFolder folder;
  const JsonSchema strict = schema();
  std::set<std::string> methods, formats;
  for (const Values& report :
       {written(quantize_rules), written(quantize_rules, " --histogram appended"),
        written(folder.write("q.yaml", every_kind), " --world threads:3"),
        written(folder.write("q.yaml", "quant_cfg: [{quantizer_path: \"*\", cfg: {format: fp16}}]"))}) {
    CHECK(strict.complaint(report) == "");
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

TEST_CASE("no member of a report can go, change its type or be joined by another") {
  const JsonSchema strict = schema();
  const Values whole = written(quantize_rules);
  for (std::size_t t = 0; t < whole.at("tensors").size(); ++t) {
    Values report = whole;
    report["tensors"] = Values::array({whole.at("tensors").at(t)});
    std::vector<Values::json_pointer> places;
    collect_objects(report, Values::json_pointer(), places);
    CHECK(places.size() == 6);
    for (const Values::json_pointer& at : places) {
      Values more = report;
      more.at(at)["unheard_of"] = 1;
      CHECK_FALSE(strict.complaint(more).empty());
      for (const auto& item : report.at(at).items()) {
        const std::string place = at.to_string() + "/" + item.key();
        CAPTURE(place);
        Values other = report;
        other.at(at)[item.key()] = item.value().is_array() ? Values("text") : Values::array();
        CHECK_FALSE(strict.complaint(other).empty());
        const bool in_payload = at.to_string().find("payload") != std::string::npos;
        Values less = report;
        less.at(at).erase(item.key());
        if (!in_payload) CHECK_FALSE(strict.complaint(less).empty());
      }
    }
  }
  const auto complaint_with = [&](const char* at, const Values& value) {
    Values wrong = whole;
    wrong[Values::json_pointer(at)] = value;
    return strict.complaint(wrong);
  };
  CHECK(complaint_with("/schema", "zeroproof-quantize/2") == "report.schema is not \"zeroproof-quantize/1\"");
  CHECK(complaint_with("/windows", 0) == "report.windows is below 1");
  CHECK(complaint_with("/after/perplexity", 0.5) == "report.after.perplexity is below 1");
  CHECK(complaint_with("/tensors/0/payload/recipe", "current") ==
        "report.tensors[0].payload.recipe is no \"null\"");
  CHECK(complaint_with("/tensors/0/payload/calibration/method", "median") ==
        "report.tensors[0].payload.calibration.method is \"median\"");
}
