#include "common/step/policy.hpp"
#include "verification/cli/program/contract_version.hpp"
#include "verification/tools/quantize/report.hpp"

namespace zeroproof::verification {
namespace {

Json number_or_null(const std::optional<std::size_t>& rule) {
  return rule ? Json(*rule + 1) : Json(nullptr);
}

Json payload_or_null(const std::optional<QuantPayload>& payload) {
  return payload ? payload_json(*payload) : Json(nullptr);
}

Json rule_json(const QuantRule& rule, const RuleUse& use) {
  return {{"name", rule.name},
          {"line", rule.line},
          {"pattern", rule.pattern},
          {"takes_part", rule.takes_part()},
          {"config", rule.config.empty() ? Json(nullptr) : Json(rule.config)},
          {"enable", rule.enable ? Json(*rule.enable) : Json(nullptr)},
          {"payload", payload_or_null(rule.payload)},
          {"matches", use.matches},
          {"decides", use.decides}};
}

Json tensor_json(const TensorQuantization& tensor) {
  Json matching = Json::array();
  for (const std::size_t rule : tensor.matching) matching.push_back(rule + 1);
  return {{"tensor", tensor.tensor},
          {"path", tensor.path},
          {"layer", tensor.layer ? Json(*tensor.layer) : Json(nullptr)},
          {"rules", matching},
          {"payload_rule", number_or_null(tensor.payload_rule)},
          {"flag_rule", number_or_null(tensor.flag_rule)},
          {"on", tensor.on},
          {"payload", payload_or_null(tensor.payload)}};
}

}  // namespace

std::string quantization_json(const QuantizationConfig& config, const QuantizationAssignment& made,
                              const std::string& model) {
  Json rules = Json::array(), tensors = Json::array(), traps = Json::array();
  for (std::size_t i = 0; i < config.rules.size(); ++i)
    rules.push_back(rule_json(config.rules[i], made.uses[i]));
  for (const TensorQuantization& tensor : made.tensors) tensors.push_back(tensor_json(tensor));
  for (const QuantTrap& trap : made.traps) {
    traps.push_back({{"rule", number_or_null(trap.rule)},
                     {"line", trap.line > 0 ? Json(trap.line) : Json(nullptr)},
                     {"text", trap.text}});
  }
  const Json json = {{"schema", "zeroproof-quantization/1"},
                     {"program", std::string("zeroproof ") + ZP_VERSION},
                     {"numeric_contract", contract_version},
                     {"file", config.file},
                     {"semantics", name(config.semantics)},
                     {"model", model},
                     {"rules", rules},
                     {"tensors", tensors},
                     {"traps", traps}};
  return json.dump(2) + "\n";
}

}  // namespace zeroproof::verification
