#pragma once
// One value of a YAML file, read as the type of a field.

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/span.hpp"
#include "verification/tools/quantize/yaml.hpp"

namespace zeroproof {

/// A value with the file and the key it came from, for messages. Numbers, true and false are taken
/// only where every version of YAML reads the same in them: 1e-4 is a number to YAML 1.2 and a text
/// to many readers of 1.1, `no` the other way round.
/// Errors (ErrorCode::config): it is of another type than requested, or out of its range.
struct YamlValue {
  const YamlNode& node;
  std::string key;
  const std::string& file;

  std::string place() const { return file + ":" + std::to_string(node.line); }
  /// The value as a message shows it.
  std::string shown() const;
  [[noreturn]] void reject(const std::string& expected, const std::string& offer = "") const;

  bool boolean() const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  double number(double low, double high) const;
  std::string text() const;
  /// The index among the names of a choice.
  std::size_t name(Span<const std::string_view> names) const;
  /// Returns itself, after a check that it is a map or a list.
  const YamlNode& map() const;
  const YamlNode& list() const;
};

/// A key of a map that is none of `known` is an error that names the nearest one, and so is a key
/// in a map that is no plain name. `prefix` precedes keys in messages: "configs.a."
void refuse_unknown_keys(const YamlNode& map, const std::string& file, const std::string& prefix,
                         const std::vector<std::string>& known);

/// Names as a list in a sentence: a, b or c.
std::string any_of_names(Span<const std::string_view> names);

/// True if some version of YAML reads this text, without quotation marks, as no text.
bool is_no_text(std::string_view text);

}  // namespace zeroproof
