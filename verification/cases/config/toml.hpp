#pragma once
// TOML, in a form that is cheap to include: only toml.cpp reads the TOML library, which takes seconds wherever it is
// included.

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/io/json.hpp"

namespace zeroproof {

/// A text that is no TOML, with what is wrong and where.
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
  /// As TOML writes it.
  std::string shown() const;
  /// Nothing, if it is of another type. An integer is no real number here.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<double> real() const;
  std::optional<std::string> text() const;
  bool is_list() const;
  bool is_table() const;
  /// Of a list; nothing of anything else.
  std::vector<TomlNode> items() const;
  /// Of a table, by name; nothing of anything else.
  std::vector<TomlMember> members() const;
  std::optional<TomlNode> member(std::string_view name) const;

 private:
  const void* node_;
};

struct TomlMember {
  std::string name;
  TomlNode node;
};

/// A text, understood.
class TomlFile {
 public:
  /// Errors: TomlError.
  TomlFile(std::string_view text, const std::string& name);
  TomlNode root() const { return TomlNode(root_.get()); }

 private:
  std::shared_ptr<const void> root_;
};

/// An object as TOML writes it: members by name, those that are null left out.
std::string toml_text(const Json& object);

}  // namespace zeroproof
