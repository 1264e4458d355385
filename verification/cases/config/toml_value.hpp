#pragma once
// One value of a TOML file, read as the type of its setting, and the tables of settings (internal
// to the parser).

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "verification/cases/config/config.hpp"
#include "verification/cases/config/nearest.hpp"
#include "verification/cases/config/toml.hpp"

namespace zeroproof {

/// A value with its file name, for messages. Errors (ErrorCode::config): it is not of the requested
/// type.
struct Value {
  TomlNode node;
  std::string key;
  std::string file;

  std::string place() const { return file + ":" + std::to_string(node.line()); }

  [[noreturn]] void reject(const std::string& expected, const std::string& offer = "") const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  int small(int low = -2147483647, int high = 2147483647) const;
  double number() const;
  std::string string() const;
  bool boolean() const;
  int exponent_of_power_of_two() const;
  std::vector<Value> items(bool may_be_empty) const;
  template <class T, class Read>
  std::vector<T> list(const Read& read, bool may_be_empty = false) const {
    std::vector<T> result;
    for (const Value& item : items(may_be_empty)) result.push_back(read(item));
    return result;
  }
};

/// One of the names of an enumeration.
template <class Choice>
Choice choice(const Value& v) {
  const std::string text = v.string();
  const Span<const std::string_view> names = names_of(Choice{});
  std::vector<std::string> choices;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return static_cast<Choice>(i);
    choices.emplace_back(names[i]);
  }
  const std::string near = nearest(text, choices);
  v.reject(one_of(names), near.empty() ? "" : ", perhaps \"" + near + "\"");
}

/// A key with its section, and the function that applies its value.
template <class Target>
struct Key {
  const char* name;
  void (*set)(Target&, const Value&);
};
template <class Target>
using Keys = std::vector<Key<Target>>;

Keys<RunConfig> schedule_keys();

/// Keys of [scaling].
Keys<RunConfig> scaling_keys();

/// Keys of one [[param_group]] table.
Keys<GroupRule> param_group_keys();

/// Keys of one [[clip_group]] table.
Keys<ClipGroupRule> clip_group_keys();

/// Keys of [muon].
Keys<RunConfig> muon_keys();

/// Keys of one [[matrix_split]] table.
Keys<MatrixSplitRule> matrix_split_keys();

}  // namespace zeroproof
