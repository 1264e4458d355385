#pragma once
// One value of a TOML file, read as the type a setting wants, and the tables of settings (internal to the
// parser).

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include "common/base/error.hpp"
#include "verification/config/config.hpp"
#include "verification/config/nearest.hpp"

namespace zeroproof {

/// Text of the file inside a message: one line, whatever control characters it holds.
inline std::string printable(const std::string& text) {
  std::string result;
  for (const char c : text) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return result;
}

/// A value with the file it came from, for messages.
struct Value {
  const toml::node& node;
  std::string key;
  std::string file;

  std::string place() const { return file + ":" + std::to_string(node.source().begin.line); }

  [[noreturn]] void reject(const std::string& expected, const std::string& offer = "") const {
    std::ostringstream shown;
    node.visit([&](const auto& value) { shown << value; });
    fail(ErrorCode::config, place() + ": " + key + " = " + printable(shown.str()), "that is not " + expected,
         "write " + expected + offer + "; verification/config/defaults.toml shows every key");
  }
  template <class T>
  T as(const std::string& expected) const {
    const std::optional<T> value = node.value_exact<T>();
    if (!value) reject(expected);
    return *value;
  }
  std::int64_t integer(std::int64_t low, std::int64_t high) const {
    const auto value = as<std::int64_t>("an integer");
    if (value < low || value > high) {
      reject("an integer from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return value;
  }
  int small(int low = -2147483647, int high = 2147483647) const {
    return static_cast<int>(integer(low, high));
  }
  double number() const {
    if (node.is_integer()) {
      const auto value = as<std::int64_t>("a number");
      constexpr std::int64_t safe = std::int64_t{1} << 62;  // beyond, the way back could overflow
      const bool exact =
          value <= safe && value >= -safe && static_cast<std::int64_t>(static_cast<double>(value)) == value;
      if (!exact) reject("a number that fp64 holds exactly");
      return static_cast<double>(value);
    }
    return as<double>("a number");
  }
  std::string string() const { return as<std::string>("a string"); }
  bool boolean() const { return as<bool>("true or false"); }
  int exponent_of_power_of_two() const {
    int exponent = 0;
    const double value = number();
    if (!(value > 0) || std::isinf(value) || std::frexp(value, &exponent) != 0.5) reject("a power of two");
    return exponent - 1;
  }
  template <class T, class Read>
  std::vector<T> list(const Read& read, bool may_be_empty = false) const {
    const toml::array* array = node.as_array();
    if (array == nullptr) reject("a list");
    if (array->empty() && !may_be_empty) reject("a list with at least one value");
    std::vector<T> result;
    for (const toml::node& item : *array) result.push_back(read(Value{item, key, file}));
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

/// Keys with their section, and what each does with its value.
template <class Target>
using Keys = std::vector<std::pair<std::string, std::function<void(Target&, const Value&)>>>;

Keys<RunConfig> schedule_keys();

/// Keys of one [[param_group]] table.
Keys<GroupRule> param_group_keys();

}  // namespace zeroproof
