#pragma once
// Applies the rules of a file to the tensors of a model.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verification/tools/quantize/quantization_config.hpp"

namespace zeroproof {

/// The payload of one tensor, and the reason. Rules are indices into QuantizationConfig::rules.
struct TensorQuantization {
  std::string tensor;
  std::string path;  ///< the path that patterns are matched with, see quantization_path()
  std::optional<int>
      layer;  ///< the number behind the first "layers." of the path, as Megatron-LM reads it
  std::vector<std::size_t> matching;  ///< rules that take part and match, in the order of the file
  std::optional<std::size_t> payload_rule;  ///< the rule that set the payload, also if it is off
  std::optional<std::size_t> flag_rule;     ///< the last one that turned it on or off
  bool on = false;
  std::optional<QuantPayload> payload;  ///< a copy; nothing: the tensor is not quantized
};

/// A rule whose effect is not the apparent one.
struct QuantTrap {
  std::optional<std::size_t> rule;  ///< nothing: the file as a whole
  std::int64_t line = 0;            ///< 0: the file as a whole
  std::string text;
};

struct RuleUse {
  std::int64_t matches = 0;  ///< tensors
  std::int64_t decides = 0;  ///< of these, tensors whose final payload or flag is this rule's
};

struct QuantizationAssignment {
  std::vector<TensorQuantization> tensors;
  std::vector<RuleUse> uses;  ///< of each rule
  std::vector<QuantTrap> traps;
};

/// megatron: the module's path, which is the tensor's name without its last part ("mlp.up" of
/// mlp.up.weight; a name without a point is its own). modelopt: the path of the tensor's quantizer
/// ("mlp.up.weight_quantizer").
std::string quantization_path(QuantSemantics semantics, const std::string& tensor);

/// The payload of every tensor. Source [Quant:first], [Quant:replace]. Errors (ErrorCode::config),
/// with file, line and key: the pattern of a rule that takes part matches no tensor (with the
/// nearest pattern that does); a rule is shadowed: it decides nothing for any tensor that it
/// matches (naming the rules that do); an entry turns on a tensor that no entry gave a payload.
QuantizationAssignment assign(const QuantizationConfig& config,
                              const std::vector<std::string>& tensors, const std::string& model);

/// "7" of layers.7.mlp; nothing without a number, or if it has more than 9 digits.
std::optional<int> layer_number(const std::string& path);

/// Internal: rules that appear correct in a file but are not.
std::vector<QuantTrap> find_traps(const QuantizationConfig& config,
                                  const QuantizationAssignment& assignment);

/// Internal: a pattern near `pattern` that matches one of the paths, or "".
std::string nearest_pattern(const std::string& pattern, const std::vector<std::string>& paths);

}  // namespace zeroproof
