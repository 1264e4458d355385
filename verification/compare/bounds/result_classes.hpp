#pragma once

#include <cmath>
#include <cstdint>
#include <string>

namespace zeroproof::verification {

/// A set of kinds of numbers: the statement about a result to which no bound applies.
class ResultClasses {
 public:
  enum Class : std::uint8_t {
    nan = 1,
    minus_infinity = 2,
    minus_zero = 4,
    zero = 8,
    infinity = 16,
    number = 32,  ///< finite and not 0
  };
  static constexpr std::uint8_t everything = 63;

  constexpr ResultClasses() = default;
  constexpr ResultClasses(int classes) : set_(static_cast<std::uint8_t>(classes)) {}

  static ResultClasses of(double value) {
    const bool negative = std::signbit(value);
    if (std::isnan(value)) return nan;
    if (std::isinf(value)) return negative ? minus_infinity : infinity;
    if (value == 0) return negative ? minus_zero : zero;
    return number;
  }

  bool contains(ResultClasses other) const { return (other.set_ & ~set_) == 0; }
  /// True if every result is in the set, which then states nothing.
  bool all() const { return set_ == everything; }
  bool operator==(const ResultClasses&) const = default;

  /// "NaN or inf"; the two zeros together are "0".
  std::string names() const {
    std::string text;
    const auto append = [&](int classes, const char* name) {
      if ((set_ & classes) == classes) text += (text.empty() ? "" : " or ") + std::string(name);
    };
    append(nan, "NaN");
    append(infinity, "inf");
    append(minus_infinity, "-inf");
    append(zero, "0");
    if (!contains(zero)) append(minus_zero, "-0");
    append(number, "a finite number");
    return text;
  }

 private:
  std::uint8_t set_ = everything;
};

}  // namespace zeroproof::verification
