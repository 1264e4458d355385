#include "verification/cases/config/toml_value.hpp"

#include <cmath>

namespace zeroproof {

void Value::reject(const std::string& expected, const std::string& offer) const {
  fail(ErrorCode::config, place() + ": " + key + " = " + node.shown(), "expected " + expected,
       "write " + expected + offer + "; verification/cases/config/defaults.toml shows every key");
}

std::int64_t Value::integer(std::int64_t low, std::int64_t high) const {
  const std::optional<std::int64_t> value = node.integer();
  if (!value) reject("an integer");
  if (*value < low || *value > high) {
    reject("an integer from " + std::to_string(low) + " to " + std::to_string(high));
  }
  return *value;
}

int Value::small(int low, int high) const { return static_cast<int>(integer(low, high)); }

double Value::number() const {
  if (const std::optional<std::int64_t> value = node.integer()) {
    // beyond this, converting back could overflow
    constexpr std::int64_t safe = std::int64_t{1} << 62;
    const bool exact = *value <= safe && *value >= -safe &&
                       static_cast<std::int64_t>(static_cast<double>(*value)) == *value;
    if (!exact) reject("a number that fp64 holds exactly");
    return static_cast<double>(*value);
  }
  const std::optional<double> value = node.real();
  if (!value) reject("a number");
  return *value;
}

std::string Value::string() const {
  std::optional<std::string> value = node.text();
  if (!value) reject("a string");
  return std::move(*value);
}

bool Value::boolean() const {
  const std::optional<bool> value = node.boolean();
  if (!value) reject("true or false");
  return *value;
}

int Value::exponent_of_power_of_two() const {
  int exponent = 0;
  const double value = number();
  if (!(value > 0) || std::isinf(value) || std::frexp(value, &exponent) != 0.5)
    reject("a power of two");
  return exponent - 1;
}

std::vector<Value> Value::items(bool may_be_empty) const {
  if (!node.is_list()) reject("a list");
  std::vector<Value> values;
  for (const TomlNode& item : node.items()) values.push_back({item, key, file});
  if (values.empty() && !may_be_empty) reject("a list with at least one value");
  return values;
}

}  // namespace zeroproof
