#pragma once
// The number after a flag of a command.

#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <string>
#include <system_error>

#include "common/base/error.hpp"

namespace zeroproof::verification {

/// The shortest text of a number.
template <class Number>
std::string flag_text(Number value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// Parses `text`, the value of `flag`. or_else: other accepted values, as the end of a sentence.
/// NaN is in no range.
/// Errors (ErrorCode::config), naming the flag: text is no number from low to high.
template <class Number>
Number flag_number(const std::string& text, const std::string& flag,
                   Number low = std::numeric_limits<Number>::lowest(),
                   Number high = std::numeric_limits<Number>::max(), const char* or_else = "") {
  Number value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good =
      error == std::errc{} && rest == text.data() + text.size() && value >= low && value <= high;
  std::string remedy = std::floating_point<Number> ? "write a number, as in " + flag + " 0.5"
                                                   : "write digits, as in " + flag + " 2";
  if (high != std::numeric_limits<Number>::max()) {
    remedy = "use " + flag_text(low) + " to " + flag_text(high) + or_else;
  } else if (low != std::numeric_limits<Number>::lowest()) {
    remedy = "use " + flag_text(low) + " or more" + or_else;
  }
  ZP_CHECK(good, ErrorCode::config, flag + " is '" + text + "'",
           "the value must be a number in range", remedy);
  return value;
}

}  // namespace zeroproof::verification
