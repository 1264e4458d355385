#pragma once
// A QuantizationConfig: the rules of a file for the tensors of a model.
// (papers/quantization_config.md)

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/span.hpp"
#include "verification/tools/quantize/payload.hpp"

namespace zeroproof {

/// The semantics of a file's rules.
///   megatron   Megatron-LM: maps `configs` and `matchers`; the first matcher that is enabled and matches decides.
///   modelopt   ModelOpt: the list `quant_cfg`; later entries override, one with `cfg` replaces all of it.
enum class QuantSemantics : std::uint8_t { megatron, modelopt };
Span<const std::string_view> names_of(QuantSemantics);

/// A matcher, or an entry of the list.
struct QuantRule {
  std::string name;       ///< the matcher's; "entry 2", counted from 1
  std::int64_t line = 1;  ///< where it begins
  std::string pattern;
  std::int64_t pattern_line = 1;
  std::string config;                   ///< megatron: the name of the config; "" in modelopt
  std::optional<QuantPayload> payload;  ///< a copy; modelopt: if the entry has `cfg`
  std::optional<bool>
      enable;  ///< modelopt: turns matching tensors on or off. megatron: false turns the matcher off
  bool takes_part() const { return !config.empty() ? enable.value_or(false) : true; }
};

struct QuantConfigEntry {
  std::string name;
  std::int64_t line = 1;
  QuantPayload payload;
  bool used = false;  ///< by a matcher that takes part
};

struct QuantizationConfig {
  std::string file;
  QuantSemantics semantics = QuantSemantics::megatron;
  std::vector<QuantConfigEntry> configs;  ///< megatron
  std::vector<QuantRule> rules;           ///< in the order of the file
};

/// Without `semantics` a file that has `quant_cfg` is ModelOpt's, and any other is Megatron-LM's.
/// Errors (ErrorCode::config), all with file, line and key: errors of parse_yaml(); unknown fields,
/// with the nearest one; wrong types and ranges; matchers that name an unknown config, disabled
/// ones too, with the nearest name.
QuantizationConfig parse_quantization(std::string_view text, const std::string& file,
                                      std::optional<QuantSemantics> semantics = std::nullopt);

/// The same of a file. Errors: also ErrorCode::io if it cannot be read.
QuantizationConfig load_quantization(const std::string& path,
                                     std::optional<QuantSemantics> semantics = std::nullopt);

/// Internal to the parser: the two forms of a file.
void read_megatron(const YamlNode& root, QuantizationConfig& config);
void read_modelopt(const YamlNode& root, QuantizationConfig& config);

}  // namespace zeroproof
