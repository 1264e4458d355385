#pragma once
// TOML behind an interface that is cheap to include: only toml.cpp includes the TOML library, which
// takes seconds to compile.

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/json.hpp"

namespace zeroproof {

/// Malformed TOML: the problem and its line.
struct TomlError : std::runtime_error {
  TomlError(const std::string& problem, std::int64_t at) : std::runtime_error(problem), line(at) {}
  std::int64_t line;
};

struct TomlMember;

/// A value of a file, valid as long as the file is.
class TomlNode {
 public:
  explicit TomlNode(const void* node) : node_(node) {}

  std::int64_t line() const;
  /// The value in TOML syntax.
  std::string shown() const;
  /// Empty for a value of another type. An integer is not a real number here.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<double> real() const;
  std::optional<std::string> text() const;
  bool is_list() const;
  bool is_table() const;
  /// Items of a list; empty for other types.
  std::vector<TomlNode> items() const;
  /// Members of a table by name; empty for other types.
  std::vector<TomlMember> members() const;
  std::optional<TomlNode> member(std::string_view name) const;

 private:
  const void* node_;
};

struct TomlMember {
  std::string name;
  TomlNode node;
};

/// A parsed text.
class TomlFile {
 public:
  /// Errors: TomlError.
  TomlFile(std::string_view text, const std::string& name);
  TomlNode root() const { return TomlNode(root_.get()); }

 private:
  std::shared_ptr<const void> root_;
};

/// An object in TOML syntax: members by name, without null members.
std::string toml_text(const Json& object);

}  // namespace zeroproof
