#include "verification/tools/quantize/quantization_config.hpp"

#include <array>
#include <filesystem>

#include "common/base/error.hpp"
#include "common/io/files/regular_file.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cli/program/file_text.hpp"

namespace zeroproof {
namespace {

constexpr std::array<std::string_view, 2> semantics_names = {"megatron", "modelopt"};

/// Where to report a missing field of a matcher.
[[noreturn]] void lacks(const YamlValue& matcher, const std::string& field,
                        const std::string& remedy) {
  fail(ErrorCode::config, matcher.place() + ": " + matcher.key + " has no " + field,
       "the rule is incomplete without it", remedy);
}

const YamlNode& required(const YamlValue& map, const std::string& field,
                         const std::string& remedy) {
  const YamlNode* const node = map.node.member(field);
  if (node == nullptr) lacks(map, field, remedy);
  return *node;
}

/// The name of a config or matcher.
void check_name(const YamlMember& member, const std::string& file, const std::string& what) {
  const std::string problem = safetensors_name_problem(member.key);
  const bool text = member.quoted || !is_no_text(member.key);
  ZP_CHECK(text && problem.empty(), ErrorCode::config,
           file + ":" + std::to_string(member.line) + ": " + shown_name(member.key) +
               " is no name of a " + what,
           text ? "a name " + problem : "some readers of YAML take it for a number or a flag",
           text ? "choose another one" : "put it in quotation marks, or choose another one");
}

void read_configs(const YamlNode& root, QuantizationConfig& config) {
  const YamlNode& configs =
      required({root, "the file", config.file}, "configs", "add configs, a map of payloads");
  for (const YamlMember& member : YamlValue{configs, "configs", config.file}.map().members) {
    check_name(member, config.file, "config");
    config.configs.push_back({member.key, member.line,
                              read_payload({member.value, "configs." + member.key, config.file}),
                              false});
  }
}

QuantConfigEntry& named_config(QuantizationConfig& config, const YamlValue& value) {
  const std::string wanted = value.text();
  std::vector<std::string> names;
  for (QuantConfigEntry& entry : config.configs) {
    if (entry.name == wanted) return entry;
    names.push_back(entry.name);
  }
  fail(ErrorCode::config, value.place() + ": " + value.key + " is " + shown_name(wanted),
       "there is no config of that name",
       names.empty() ? "add it to configs"
                     : suggestion(wanted, names, "name one of configs, or add it there"));
}

QuantRule read_matcher(const YamlMember& member, QuantizationConfig& config) {
  check_name(member, config.file, "matcher");
  const YamlValue matcher{member.value, "matchers." + member.key, config.file};
  refuse_unknown_keys(matcher.map(), config.file, matcher.key + ".",
                      {"type", "pattern", "config", "enabled"});
  const auto field = [&](const char* name, const char* remedy) {
    return YamlValue{required(matcher, name, remedy), matcher.key + "." + name, config.file};
  };
  static constexpr std::array<std::string_view, 1> types = {"glob"};
  field("type", "add type: glob").name(types);
  const YamlValue pattern = field("pattern", "add pattern: \"*\" or a narrower one");
  QuantConfigEntry& named =
      named_config(config, field("config", "add config with one of the names of configs"));
  const YamlNode* const enabled = member.value.member("enabled");
  const bool on =
      enabled != nullptr && YamlValue{*enabled, matcher.key + ".enabled", config.file}.boolean();
  named.used = named.used || on;
  QuantRule rule{member.key,    member.line, pattern.text(), pattern.node.line, named.name,
                 named.payload, {}};
  if (enabled != nullptr) rule.enable = on;
  return rule;
}

QuantRule read_entry(const YamlNode& node, std::size_t number, const std::string& file) {
  const YamlValue entry{node, "quant_cfg[" + std::to_string(number) + "]", file};
  refuse_unknown_keys(entry.map(), file, entry.key + ".", {"quantizer_path", "cfg", "enable"});
  const YamlNode& path =
      required(entry, "quantizer_path", "add quantizer_path: \"*\" or a narrower one");
  QuantRule rule;
  rule.name = "entry " + std::to_string(number + 1);
  rule.line = node.line;
  rule.pattern = YamlValue{path, entry.key + ".quantizer_path", file}.text();
  rule.pattern_line = path.line;
  if (const YamlNode* const cfg = node.member("cfg"))
    rule.payload = read_payload({*cfg, entry.key + ".cfg", file});
  if (const YamlNode* const enable = node.member("enable")) {
    rule.enable = YamlValue{*enable, entry.key + ".enable", file}.boolean();
  }
  if (!rule.payload && !rule.enable)
    lacks(entry, "cfg and no enable", "add cfg with a payload, or enable: false");
  if (!rule.enable) rule.enable = true;  // of an entry with a payload
  return rule;
}

void require_rules(const QuantizationConfig& config, const YamlNode& list, const std::string& key) {
  ZP_CHECK(!config.rules.empty(), ErrorCode::config,
           config.file + ":" + std::to_string(list.line) + ": there is no rule in " + key,
           "no tensor would be quantized", "add one");
}

}  // namespace

Span<const std::string_view> names_of(QuantSemantics) { return semantics_names; }

void read_megatron(const YamlNode& root, QuantizationConfig& config) {
  std::vector<std::string> known = {"configs", "matchers"};
  if (root.member("quant_cfg") == nullptr) known.emplace_back("quant_cfg");  // may have been meant
  refuse_unknown_keys(root, config.file, "", known);
  read_configs(root, config);
  const YamlNode& matchers = required({root, "the file", config.file}, "matchers",
                                      "add matchers, a map in the order of their priority");
  for (const YamlMember& member : YamlValue{matchers, "matchers", config.file}.map().members) {
    config.rules.push_back(read_matcher(member, config));
  }
  require_rules(config, matchers, "matchers");
}

void read_modelopt(const YamlNode& root, QuantizationConfig& config) {
  refuse_unknown_keys(root, config.file, "", {"quant_cfg"});
  const YamlNode& list =
      required({root, "the file", config.file}, "quant_cfg", "add quant_cfg, a list of entries");
  const std::vector<YamlNode>& items = YamlValue{list, "quant_cfg", config.file}.list().items;
  for (std::size_t i = 0; i < items.size(); ++i)
    config.rules.push_back(read_entry(items[i], i, config.file));
  require_rules(config, list, "quant_cfg");
}

QuantizationConfig parse_quantization(std::string_view text, const std::string& file,
                                      std::optional<QuantSemantics> semantics) {
  const YamlNode root = parse_yaml(text, file);
  if (root.kind != YamlNode::Kind::map) {
    YamlValue{root, "the file", file}.reject("a map", "write configs and matchers, or quant_cfg");
  }
  QuantizationConfig config;
  config.file = file;
  config.semantics = semantics.value_or(
      root.member("quant_cfg") != nullptr ? QuantSemantics::modelopt : QuantSemantics::megatron);
  config.semantics == QuantSemantics::megatron ? read_megatron(root, config)
                                               : read_modelopt(root, config);
  return config;
}

QuantizationConfig load_quantization(const std::string& path,
                                     std::optional<QuantSemantics> semantics) {
  require_regular_file(path, "quantization file");
  std::error_code ignored;
  const std::uintmax_t num_bytes = std::filesystem::file_size(path, ignored);
  ZP_CHECK(ignored || num_bytes <= static_cast<std::uintmax_t>(most_yaml_bytes), ErrorCode::config,
           path + " has more than " + std::to_string(most_yaml_bytes) + " bytes",
           "no configuration is that long", "name the right file");
  const std::optional<std::string> text = verification::file_text(path);
  ZP_CHECK(text.has_value(), ErrorCode::io, "quantization file " + path + " cannot be read",
           "there are no rules without it", "check the name and the permissions");
  return parse_quantization(*text, path, semantics);
}

}  // namespace zeroproof
