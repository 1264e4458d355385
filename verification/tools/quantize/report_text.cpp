#include <algorithm>

#include "common/base/printable.hpp"
#include "verification/cli/program/contract_text.hpp"
#include "verification/report/format.hpp"
#include "verification/report/report_style.hpp"
#include "verification/tools/quantize/report.hpp"

namespace zeroproof::verification {
namespace {

/// At most `most` columns: text in the middle is left out, between characters.
std::string fitted(const std::string& text, std::size_t most) {
  const std::string plain = printable(text);
  if (plain.size() <= most) return plain;
  const auto continues = [&](std::size_t at) {
    return at < plain.size() && (static_cast<unsigned char>(plain[at]) & 0xC0U) == 0x80U;
  };
  std::size_t head = (most - 2) / 2;
  std::size_t tail = plain.size() - (most - 2 - head);
  while (head > 0 && continues(head)) --head;
  while (tail < plain.size() && continues(tail)) ++tail;
  return plain.substr(0, head) + ".." + plain.substr(tail);
}

bool is_megatron(const QuantizationConfig& config) {
  return config.semantics == QuantSemantics::megatron;
}

/// The effect of a rule.
std::string effect(const QuantRule& rule) {
  if (!rule.takes_part()) return "(off)";
  if (!rule.config.empty()) return rule.config;
  if (!rule.payload) return *rule.enable ? "on" : "off";
  return short_name(*rule.payload) + (*rule.enable ? "" : ", off");
}

std::string rules_text(const QuantizationConfig& config, const QuantizationAssignment& made,
                       const Paint& paint) {
  std::string out =
      "\n" +
      paint("1", is_megatron(config)
                     ? "rules: the first that matches decides"
                     : "rules: later ones override; a payload replaces, on and off toggle") +
      "\n" +
      fmt::format("{:>4} {:>5}  {:<28} {:<22} {:>7} {:>7}\n", "rule", "line", "pattern",
                  is_megatron(config) ? "config" : "does", "matches", "decides");
  for (std::size_t i = 0; i < config.rules.size(); ++i) {
    const QuantRule& rule = config.rules[i];
    out += fmt::format("{:>4} {:>5}  {:<28} {:<22} {:>7} {:>7}\n", i + 1, rule.line,
                       fitted(rule.pattern, 28), fitted(effect(rule), 22),
                       rule.takes_part() ? grouped(made.uses[i].matches) : "-",
                       rule.takes_part() ? grouped(made.uses[i].decides) : "-");
  }
  return out;
}

/// "1, 3": rules of one tensor, but for `without`.
std::string numbers(const std::vector<std::size_t>& rules, std::optional<std::size_t> without) {
  std::string text;
  for (const std::size_t rule : rules) {
    if (rule != without) text += (text.empty() ? "" : ", ") + std::to_string(rule + 1);
  }
  return text;
}

std::string why(const QuantizationConfig& config, const TensorQuantization& tensor) {
  if (tensor.matching.empty()) return "no rule matches";
  const std::size_t last = *tensor.flag_rule;
  std::string text = "rule " + std::to_string(last + 1);
  if (is_megatron(config)) {
    const std::string others = numbers(tensor.matching, last);
    return others.empty() ? text + ", alone" : text + ", before " + others;
  }
  std::vector<std::size_t> overridden;
  for (const std::size_t rule : tensor.matching) {
    const bool payload = tensor.on && rule == tensor.payload_rule;
    if (rule != last && !payload) overridden.push_back(rule);
  }
  if (tensor.on && tensor.payload_rule != last)
    text += " on " + std::to_string(*tensor.payload_rule + 1);
  const std::string others = numbers(overridden, std::nullopt);
  return others.empty() ? text : text + ", over " + others;
}

std::string gets(const TensorQuantization& tensor) {
  if (tensor.payload) return short_name(*tensor.payload);
  return tensor.matching.empty() ? "-" : "off";
}

std::string tensors_text(const QuantizationConfig& config, const QuantizationAssignment& made,
                         const Paint& paint) {
  std::string out =
      "\n" +
      paint("1", is_megatron(config)
                     ? "tensors: rules match the module, without the last part of the name"
                     : "tensors: rules match the name followed by _quantizer") +
      "\n" + fmt::format("{:<34} {:<22} {}\n", "tensor", "gets", "why");
  for (const TensorQuantization& tensor : made.tensors) {
    out += fmt::format("{:<34} {:<22} {}\n", fitted(tensor.tensor, 34), fitted(gets(tensor), 22),
                       fitted(why(config, tensor), 22));
  }
  return out;
}

/// Shortens long words in the middle.
std::string in_short_words(const std::string& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    result += (at == 0 ? "" : " ") + fitted(text.substr(at, end - at), 60);
    at = end + 1;
  }
  return result;
}

std::string traps_text(const QuantizationAssignment& made, const Paint& paint) {
  if (made.traps.empty()) return "\nno traps\n";
  std::string out = "\n" + paint("33", made.traps.size() == 1 ? "a trap" : "traps") + "\n";
  for (const QuantTrap& trap : made.traps) {
    std::string text = trap.line > 0 ? "line " + std::to_string(trap.line) + ": " : "";
    if (trap.rule) text = "rule " + std::to_string(*trap.rule + 1) + ", " + text;
    out += wrapped({sentence(in_short_words(text + trap.text))}, quantization_columns, "  ");
  }
  return out;
}

}  // namespace

std::string quantization_text(const QuantizationConfig& config, const QuantizationAssignment& made,
                              const std::string& model, bool colour) {
  const Paint paint{colour};
  std::int64_t quantized = 0;
  for (const TensorQuantization& tensor : made.tensors) quantized += tensor.payload ? 1 : 0;
  std::string out = fmt::format("{}: {} rules by the semantics of {}\n", fitted(config.file, 40),
                                config.rules.size(), is_megatron(config) ? "megatron" : "modelopt");
  out += fmt::format("{}: {} tensors, {} with a payload\n", fitted(model, 40),
                     grouped(static_cast<std::int64_t>(made.tensors.size())), grouped(quantized));
  return out + rules_text(config, made, paint) + tensors_text(config, made, paint) +
         traps_text(made, paint);
}

std::string payload_fields_text() {
  std::string out = "fields of a payload; one that would have no effect is refused\n";
  for (const PayloadField& field : payload_fields()) {
    const std::string standard =
        field.standard.empty() ? "must be given" : "default " + std::string(field.standard);
    const std::string text =
        std::string(field.values) + "; " + standard + "; with " + std::string(field.with);
    const std::string lines = wrapped({text}, quantization_columns, std::string(26, ' '));
    out += fmt::format("  {:<23} {}", field.key, lines.substr(26));
  }
  return out;
}

}  // namespace zeroproof::verification
