#include "verification/tools/quantize/payload.hpp"

#include "common/base/error.hpp"
#include "common/step/policy.hpp"

namespace zeroproof {
namespace {

constexpr std::string_view part = "calibration.";  // the one map inside of a payload

bool in_part(const PayloadField& field) { return field.key.substr(0, part.size()) == part; }

/// The names of the fields at the top, or of those in the part.
std::vector<std::string> known_keys(bool of_part) {
  std::vector<std::string> keys;
  for (const PayloadField& field : payload_fields()) {
    if (in_part(field) != of_part) continue;
    keys.emplace_back(field.key.substr(of_part ? part.size() : 0));
  }
  if (!of_part) keys.emplace_back(part.substr(0, part.size() - 1));
  return keys;
}

const YamlNode* given(const YamlNode& map, const YamlNode* calibration, const PayloadField& field) {
  if (!in_part(field)) return map.member(field.key);
  return calibration == nullptr ? nullptr : calibration->member(field.key.substr(part.size()));
}

[[noreturn]] void missing(const YamlValue& value, const std::string& field, const std::string& why,
                          const std::string& remedy) {
  fail(ErrorCode::config, value.place() + ": " + value.key + " has no " + field, why, remedy);
}

/// Required fields, checked after every given field was read.
void require_whole(const YamlValue& value, const YamlNode* calibration,
                   const QuantPayload& payload) {
  if (calibration != nullptr && payload.calibration == CalibrationMethod::none) {
    missing(value, "calibration.method", "its other fields have no meaning without",
            "add method: max, or another one");
  }
  if (payload.recipe == QuantRecipe::blockwise && payload.block == QuantBlock::none) {
    missing(value, "block", "blockwise has a scale for each", "add block: 1x128 or block: 128x128");
  }
  if (payload.has_scale() && payload.recipe == QuantRecipe::none &&
      payload.calibration == CalibrationMethod::none) {
    missing(value, payload.is_fp8() ? "recipe and no calibration" : "calibration",
            "its format needs a scale",
            payload.is_fp8()
                ? "add recipe: current to make it in every step, or a calibration to make it once"
                : "add calibration with method: max, or another one");
  }
}

}  // namespace

QuantPayload read_payload(const YamlValue& value) {
  const YamlNode& map = value.map();
  refuse_unknown_keys(map, value.file, value.key + ".", known_keys(false));
  const YamlNode* const calibration = map.member(part.substr(0, part.size() - 1));
  if (calibration != nullptr) {
    const YamlValue inner{*calibration, value.key + ".calibration", value.file};
    refuse_unknown_keys(inner.map(), value.file, inner.key + ".", known_keys(true));
  }
  QuantPayload payload;
  for (const PayloadField& field : payload_fields()) {
    const YamlNode* const node = given(map, calibration, field);
    if (node == nullptr) {
      if (field.standard.empty()) {
        missing(value, std::string(field.key), "it has no default",
                "add " + std::string(field.key) + ": " + std::string(field.values));
      }
      continue;
    }
    const YamlValue item{*node, value.key + "." + std::string(field.key), value.file};
    if (!field.applies(payload)) {
      fail(ErrorCode::config, item.place() + ": " + item.key + " would have no effect",
           "it belongs to " + std::string(field.with), "remove it, or change what it belongs to");
    }
    field.read(payload, item);
  }
  require_whole(value, calibration, payload);
  return payload;
}

Json payload_json(const QuantPayload& payload) {
  Json json = Json::object();
  Json calibration = Json::object();
  for (const PayloadField& field : payload_fields()) {
    if (!field.applies(payload)) continue;
    if (in_part(field)) {
      calibration[field.key.substr(part.size())] = field.written(payload);
    } else {
      json[field.key] = field.written(payload);
    }
  }
  const bool calibrated = payload.calibration != CalibrationMethod::none;
  if (payload.has_scale()) json["calibration"] = calibrated ? calibration : Json(nullptr);
  return json;
}

std::string short_name(const QuantPayload& payload) {
  std::string text(name(payload.format));
  const auto add = [&](bool given, std::string_view word) {
    if (given) text.append(" ").append(word);
  };
  add(payload.recipe != QuantRecipe::none, name(payload.recipe));
  add(payload.recipe == QuantRecipe::blockwise, name(payload.block));
  add(payload.calibration != CalibrationMethod::none, name(payload.calibration));
  return text;
}

}  // namespace zeroproof
