#include "verification/tools/quantize/assignment.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "common/base/error.hpp"
#include "common/io/safetensors/safetensors_types.hpp"
#include "verification/tools/quantize/glob.hpp"

namespace zeroproof {
namespace {

std::string key_of(const QuantizationConfig& config, std::size_t rule) {
  return config.semantics == QuantSemantics::megatron ? "matchers." + config.rules[rule].name
                                                      : "quant_cfg[" + std::to_string(rule) + "]";
}

std::string pattern_key(const QuantizationConfig& config, std::size_t rule) {
  return key_of(config, rule) +
         (config.semantics == QuantSemantics::megatron ? ".pattern" : ".quantizer_path");
}

/// The first rule that matches has the tensor. [Quant:first]
void decide_megatron(const QuantizationConfig& config, TensorQuantization& tensor) {
  if (tensor.matching.empty()) return;
  const std::size_t first = tensor.matching.front();
  tensor.payload_rule = first;
  tensor.flag_rule = first;
  tensor.on = true;
  tensor.payload = config.rules[first].payload;
}

/// Entry after entry; one with a payload replaces payload and flag, a bare flag only the flag.
/// [Quant:replace]
void decide_modelopt(const QuantizationConfig& config, TensorQuantization& tensor) {
  std::optional<QuantPayload> payload;
  for (const std::size_t rule : tensor.matching) {
    const QuantRule& entry = config.rules[rule];
    if (entry.payload) {
      payload = entry.payload;
      tensor.payload_rule = rule;
    }
    tensor.on = entry.enable.value_or(true);
    tensor.flag_rule = rule;
  }
  if (!tensor.on || !tensor.payload_rule) return;
  tensor.payload = payload;
}

/// A payload that is turned off counts as undecided.
bool decides(const TensorQuantization& tensor, std::size_t rule) {
  return tensor.flag_rule == rule || (tensor.on && tensor.payload_rule == rule);
}

[[noreturn]] void refuse_unmatched(const QuantizationConfig& config, std::size_t rule,
                                   const std::vector<TensorQuantization>& tensors,
                                   const std::string& model) {
  const QuantRule& r = config.rules[rule];
  const Glob glob(r.pattern);
  std::vector<std::string> paths;
  bool names_tensors = false;  // Megatron-LM's patterns do not
  for (const TensorQuantization& tensor : tensors) {
    paths.push_back(tensor.path);
    names_tensors = names_tensors || glob.matches(tensor.tensor);
  }
  const std::string near = nearest_pattern(r.pattern, paths);
  std::string remedy = "remove it, or correct it: the first path is " + shown_name(paths.front());
  if (!near.empty()) remedy = "did you mean " + shown_name(near) + "?";
  if (names_tensors && config.semantics == QuantSemantics::megatron) {
    remedy = "leave out the tensor's own name: patterns are matched with modules, such as " +
             shown_name(paths.front());
  }
  fail(ErrorCode::config,
       config.file + ":" + std::to_string(r.pattern_line) + ": " + pattern_key(config, rule) + " " +
           shown_name(r.pattern) + " matches none of the " + std::to_string(tensors.size()) +
           " tensors of " + model,
       "the rule would have no effect", remedy);
}

/// Reports a shadowed rule, with the rules that decide for the tensors that it matches.
[[noreturn]] void refuse_shadowed(const QuantizationConfig& config, std::size_t rule,
                                  const std::vector<TensorQuantization>& tensors,
                                  std::int64_t matches) {
  std::set<std::size_t> others;
  for (const TensorQuantization& tensor : tensors) {
    if (std::find(tensor.matching.begin(), tensor.matching.end(), rule) != tensor.matching.end())
      others.insert(*tensor.flag_rule);
  }
  std::string who;
  for (const std::size_t other : others) {
    who += (who.empty() ? "" : ", ") + key_of(config, other) + " in line " +
           std::to_string(config.rules[other].line);
  }
  const bool megatron = config.semantics == QuantSemantics::megatron;
  fail(ErrorCode::config,
       config.file + ":" + std::to_string(config.rules[rule].line) + ": " + key_of(config, rule) +
           " is shadowed: it decides nothing for the " + std::to_string(matches) +
           " tensors that it matches",
       who + (others.size() == 1 ? " does" : " do") +
           (megatron ? ", as the first that matches" : ", as the last that matches"),
       megatron ? "move it before " + key_of(config, *others.begin()) + ", or remove one of them"
                : "move it behind " + key_of(config, *others.rbegin()) + ", or remove one of them");
}

void check_rules(const QuantizationConfig& config, const QuantizationAssignment& made,
                 const std::string& model) {
  for (std::size_t rule = 0; rule < config.rules.size(); ++rule) {
    if (!config.rules[rule].takes_part()) continue;
    if (made.uses[rule].matches == 0) refuse_unmatched(config, rule, made.tensors, model);
    if (made.uses[rule].decides == 0)
      refuse_shadowed(config, rule, made.tensors, made.uses[rule].matches);
  }
  for (const TensorQuantization& tensor : made.tensors) {
    if (!tensor.on || tensor.payload_rule) continue;
    const std::size_t rule = *tensor.flag_rule;
    fail(ErrorCode::config,
         config.file + ":" + std::to_string(config.rules[rule].line) + ": " + key_of(config, rule) +
             ".enable turns on " + shown_name(tensor.tensor),
         "no entry before it gives that tensor a cfg",
         "add cfg to it, or an entry with one before it");
  }
}

}  // namespace

std::string quantization_path(QuantSemantics semantics, const std::string& tensor) {
  if (semantics == QuantSemantics::modelopt) return tensor + "_quantizer";
  const std::size_t last = tensor.rfind('.');
  return last == std::string::npos ? tensor : tensor.substr(0, last);
}

std::optional<int> layer_number(const std::string& path) {
  static constexpr std::string_view word = "layers.";
  for (std::size_t at = path.find(word); at != std::string::npos; at = path.find(word, at + 1)) {
    const char* const begin = path.data() + at + word.size();
    int number = 0;
    const bool digit = at + word.size() < path.size() && *begin >= '0' && *begin <= '9';
    if (digit && std::from_chars(begin, path.data() + path.size(), number).ec == std::errc{})
      return number;
  }
  return std::nullopt;
}

QuantizationAssignment assign(const QuantizationConfig& config,
                              const std::vector<std::string>& tensors, const std::string& model) {
  QuantizationAssignment made;
  made.uses.resize(config.rules.size());
  std::vector<Glob> globs;
  for (const QuantRule& rule : config.rules) globs.emplace_back(rule.pattern);
  for (const std::string& name : tensors) {
    TensorQuantization tensor;
    tensor.tensor = name;
    tensor.path = quantization_path(config.semantics, name);
    tensor.layer = layer_number(tensor.path);
    for (std::size_t rule = 0; rule < config.rules.size(); ++rule) {
      if (config.rules[rule].takes_part() && globs[rule].matches(tensor.path))
        tensor.matching.push_back(rule);
    }
    config.semantics == QuantSemantics::megatron ? decide_megatron(config, tensor)
                                                 : decide_modelopt(config, tensor);
    for (const std::size_t rule : tensor.matching) {
      ++made.uses[rule].matches;
      if (decides(tensor, rule)) ++made.uses[rule].decides;
    }
    made.tensors.push_back(std::move(tensor));
  }
  check_rules(config, made, model);
  made.traps = find_traps(config, made);
  return made;
}

}  // namespace zeroproof
