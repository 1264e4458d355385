#pragma once
// YAML as a tree without guessed types: only yaml.cpp uses the YAML library.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zeroproof {

struct YamlMember;

/// A value with its line. The type of a scalar is decided from its text (yaml_value.hpp): the two
/// versions of YAML in use disagree about types.
struct YamlNode {
  enum class Kind : std::uint8_t { nothing, scalar, list, map };

  Kind kind = Kind::nothing;
  std::int64_t line = 1;  ///< counted from 1
  bool quoted = false;    ///< of a scalar: in quotation marks, or a block of text
  std::string text;       ///< of a scalar
  std::vector<YamlNode> items;
  std::vector<YamlMember> members;  ///< in the order of the file; no key occurs twice

  const YamlNode* member(std::string_view name) const;
};

struct YamlMember {
  std::string key;
  std::int64_t line = 1;
  bool quoted = false;
  YamlNode value;
};

/// Limits of a text: bytes, levels, and values after the expansion of aliases.
inline constexpr std::int64_t most_yaml_bytes = std::int64_t{1} << 20;
inline constexpr std::int64_t most_yaml_levels = 16;
inline constexpr std::int64_t most_yaml_values = 20000;

/// True if this program was built with a YAML library.
bool reads_yaml();

/// One document. An alias is a copy of the anchored node. Errors (ErrorCode::config), all with file
/// and line: invalid YAML, and beyond that: a key that occurs twice or is no text, a tag, a merge
/// key, an alias inside of the node it names, a second document, errors of check_yaml_text(), more
/// than the limits above. ErrorCode::unavailable: this program was built without a YAML library.
YamlNode parse_yaml(std::string_view text, const std::string& file);

/// Checks before the library reads the text. Errors (ErrorCode::config), with file and line: too
/// long; no UTF-8; control characters except line feeds, so no tabs; a carriage return that ends no
/// line.
void check_yaml_text(std::string_view text, const std::string& file);

}  // namespace zeroproof
