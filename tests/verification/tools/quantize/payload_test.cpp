// Payloads: every field by its type, range and default, and the settings under which it has no
// effect.

#include <doctest.h>

#include <set>
#include <string>

#include "common/step/policy.hpp"
#include "tests/verification/tools/quantize/refused.hpp"
#include "verification/tools/quantize/payload.hpp"

namespace payload_test {

namespace {

using namespace zeroproof;
using namespace zeroproof::tests;

QuantPayload payload(const std::string& fields) {
  const YamlNode root = parse_yaml("{" + fields + "}", "f.yaml");
  static const std::string file = "f.yaml";
  return read_payload({root, "configs.c", file});
}

void refused(const std::string& fields, const std::string& mentions) {
  CAPTURE(fields);
  expect_refused([&] { payload(fields); }, 1, mentions);
}

std::string json(const std::string& fields) { return payload_json(payload(fields)).dump(); }

}  // namespace

TEST_CASE("defaults, and the fields that have an effect") {
  CHECK(json("format: bf16") == R"({"format":"bf16"})");
  CHECK(
      json("format: e4m3, recipe: delayed") ==
      R"({"format":"e4m3","recipe":"delayed","margin":0,"history":1024,"amax":"max","calibration":null})");
  CHECK(
      json("format: e5m2, recipe: current") ==
      R"({"format":"e5m2","recipe":"current","epsilon":0.0,"power_of_two":false,"calibration":null})");
  CHECK(
      json("format: e4m3, recipe: blockwise, block: 128x128") ==
      R"({"format":"e4m3","recipe":"blockwise","epsilon":0.0,"power_of_two":true,"block":"128x128",)"
      R"("calibration":null})");
  CHECK(json("format: e4m3, recipe: mxfp8") ==
        R"({"format":"e4m3","recipe":"mxfp8","block":"1x32","calibration":null})");
  CHECK(
      json("format: int8, calibration: {method: percentile}") ==
      R"({"format":"int8","calibration":{"method":"percentile","percentile":99.99,"bins":2048}})");
  CHECK(json("format: int8, calibration: {method: entropy, bins: 4096}") ==
        R"({"format":"int8","calibration":{"method":"entropy","bins":4096}})");
  CHECK(json("format: int8, calibration: {method: smoothquant, axis: 1}") ==
        R"({"format":"int8","calibration":{"method":"smoothquant","alpha":1.0,"axis":1}})");
  CHECK(json("format: int4, calibration: {method: max}") ==
        R"({"format":"int4","calibration":{"method":"max","axis":null}})");
  CHECK(json("format: e4m3, calibration: {method: mse}") ==
        R"({"format":"e4m3","recipe":null,"calibration":{"method":"mse","axis":null}})");
}

TEST_CASE("given values") {
  const QuantPayload delayed = payload(
      "history: 1, recipe: delayed, amax: most_recent, margin: 32, format: e4m3");  // any order
  CHECK(delayed.history == 1);
  CHECK(delayed.margin == 32);
  CHECK(delayed.amax == AmaxAlgorithm::most_recent);
  const QuantPayload current =
      payload("format: e4m3, recipe: blockwise, block: 1x128, power_of_two: false, epsilon: 0.25");
  CHECK(current.block == QuantBlock::rows_128);
  CHECK(current.epsilon == 0.25);
  CHECK_FALSE(current.power_of_two);
  CHECK(payload("format: int8, calibration: {method: smoothquant, alpha: 0.5}").alpha == 0.5);
  CHECK(payload("format: int8, calibration: {method: percentile, percentile: 100}").percentile ==
        100);
  CHECK(short_name(payload("format: e4m3, recipe: blockwise, block: 1x128")) ==
        "e4m3 blockwise 1x128");
  CHECK(short_name(payload("format: int8, calibration: {method: mse}")) == "int8 mse");
  CHECK(short_name(payload("format: fp16")) == "fp16");
}

TEST_CASE("types and ranges") {
  const std::string delayed = "format: e4m3, recipe: delayed, ";
  for (const char* value : {"0", "1025", "1.0", "\"16\"", "true", "[1]", "~"})
    refused(delayed + "history: " + value, "an integer from 1 to 1024");
  for (const char* value : {"-1", "33", "0.5"})
    refused(delayed + "margin: " + value, "an integer from 0 to 32");
  refused(delayed + "amax: most_recnet", "did you mean most_recent?");
  refused(delayed + "amax: 3", "max or most_recent");
  const std::string current = "format: e4m3, recipe: current, ";
  for (const char* value : {"-0.5", "1.5", "\"0.5\"", "no"})
    refused(current + "epsilon: " + value, "a number from 0 to 1");
  refused(current + "epsilon: 1e-4", "such as 0.5 or 1.0e-4");
  for (const char* value : {"1", "yes", "\"true\""})
    refused(current + "power_of_two: " + value, "true or false");
  refused("format: e4m2, recipe: current", "did you mean e4m3?");
  refused("format: 8", "bf16, fp16, e4m3, e5m2, int8 or int4");
  refused("format: {e4m3: 1}", "is a map");
  refused("format: e4m3, recipe: none", "delayed, current, blockwise or mxfp8");
  refused("format: e4m3, recipe: blockwise, block: 32", "1x128, 128x128 or 1x32");
  refused("format: e4m3, recipe: blockwise, block: 1x32", "the blocks of blockwise");
  refused("format: e4m3, recipe: mxfp8, block: 1x128", "the block of mxfp8");
  const std::string int8 = "format: int8, calibration: ";
  refused(int8 + "max", "a map");
  refused(int8 + "{method: none}", "max, percentile, entropy, mse or smoothquant");
  refused(int8 + "{method: percentle}", "did you mean percentile?");
  for (const char* value : {"0", "100.5", "0.5"})
    refused(int8 + "{method: percentile, percentile: " + value + "}", "a number from 1 to 100");
  for (const char* value : {"255", "65537", "2048.0"})
    refused(int8 + "{method: entropy, bins: " + value + "}", "an integer from 256 to 65536");
  refused(int8 + "{method: smoothquant, alpha: 1.5}", "a number from 0 to 1");
  for (const char* value : {"-1", "8"})
    refused(int8 + "{method: max, axis: " + value + "}", "an integer from 0 to 7");
}

TEST_CASE("fields without effect, and fields that are missing") {
  refused("format: bf16, recipe: current",
          "configs.c.recipe would have no effect (it belongs to format e4m3, e5m2)");
  refused("format: int8, recipe: delayed, calibration: {method: max}",
          "recipe would have no effect");
  refused("format: e4m3, recipe: current, margin: 1",
          "margin would have no effect (it belongs to recipe delayed)");
  refused("format: e4m3, recipe: current, history: 1", "history would have no effect");
  refused("format: e4m3, recipe: mxfp8, amax: max", "amax would have no effect");
  refused("format: e4m3, recipe: delayed, epsilon: 0.5", "epsilon would have no effect");
  refused("format: e4m3, recipe: delayed, power_of_two: true", "power_of_two would have no effect");
  refused("format: e4m3, recipe: current, block: 1x128", "block would have no effect");
  refused("format: e4m3, recipe: current, calibration: {method: max}",
          "calibration.method would have no effect");
  refused("format: bf16, calibration: {method: max}", "calibration.method would have no effect");
  refused("format: int8, calibration: {method: max, percentile: 99}",
          "percentile would have no effect");
  refused("format: int8, calibration: {method: mse, bins: 2048}", "bins would have no effect");
  refused("format: int8, calibration: {method: max, alpha: 1}", "alpha would have no effect");
  refused("format: int8, calibration: {method: entropy, axis: 0}", "axis would have no effect");
  refused("format: int4, calibration: {method: entropy}", "entropy and smoothquant are for int8");
  refused("format: e4m3, calibration: {method: smoothquant}",
          "entropy and smoothquant are for int8");
  refused("", "configs.c has no format");
  refused("recipe: current", "configs.c has no format");
  refused("format: e4m3", "has no recipe and no calibration");
  refused("format: int8", "has no calibration");
  refused("format: int8, calibration: {}", "has no calibration.method");
  refused("format: e4m3, recipe: current, calibration: {}", "has no calibration.method");
  refused("format: e4m3, recipe: blockwise", "has no block");
  refused("format: bf16, recipee: current", "did you mean recipe?");
  refused("format: int8, calibration: {metod: max}", "did you mean method?");
  refused("format: int8, method: max", "there is no field configs.c.'method'");
}

TEST_CASE("the table of fields names every name, and every field is in it once") {
  std::set<std::string> keys;
  for (const PayloadField& field : payload_fields()) {
    CAPTURE(field.key);
    CHECK(keys.insert(std::string(field.key)).second);
    CHECK_FALSE(field.values.empty());
    CHECK_FALSE(field.with.empty());
  }
  CHECK(keys.size() == 13);
  const auto values = [](const char* key) {
    for (const PayloadField& field : payload_fields()) {
      if (field.key == key) return std::string(field.values);
    }
    return std::string();
  };
  const auto choices = [](Span<const std::string_view> names) {
    return any_of_names(names.subspan(1));
  };
  CHECK(values("format") == any_of_names(names_of(QuantFormat{})));
  CHECK(values("recipe") == choices(names_of(QuantRecipe{})));
  CHECK(values("amax") == any_of_names(names_of(AmaxAlgorithm{})));
  CHECK(values("block") == choices(names_of(QuantBlock{})));
  CHECK(values("calibration.method") == choices(names_of(CalibrationMethod{})));
}

}  // namespace payload_test
