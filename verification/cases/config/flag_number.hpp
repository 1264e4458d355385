#pragma once
// What stands behind a flag of a command, as a number.

#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <string>
#include <system_error>

#include "common/base/error.hpp"

namespace zeroproof::verification {

/// As short as it can be.
template <class Number>
std::string flag_text(Number value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// or_else: what may stand there besides numbers, as the end of a sentence. NaN is in no range.
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
  ZP_CHECK(good, ErrorCode::config, flag + " is '" + text + "'", "that is not a number it can use",
           remedy);
  return value;
}

}  // namespace zeroproof::verification
