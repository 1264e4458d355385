#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "verification/compare/bounds/result_classes.hpp"

namespace zeroproof::verification {

/// A value in exact arithmetic (64 bits), and how far a result may be from it.
struct ElementBound {
  long double exact = 0;  ///< NaN or an infinity where every legal order results in it
  long double allowed = 0;
  /// false outside the conditions of the bound and for state that the rule does not have
  bool judged = false;
  ResultClasses classes = {};  ///< if not judged: those that a legal order can produce
  bool cast_to_bf16 = false;   ///< `allowed` is for the value of which the result is the cast (R8)

  /// Error in units of the bound; above 1 if no legal order results in it, infinite for a result of
  /// a class that no legal order produces.
  double ratio(double got) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (!judged) return classes.contains(ResultClasses::of(got)) ? 0 : infinity;
    if (std::isnan(exact)) return std::isnan(got) ? 0 : infinity;
    if (std::isinf(exact)) return static_cast<long double>(got) == exact ? 0 : infinity;
    if (!std::isfinite(got)) return infinity;
    const long double distance = std::fabs((cast_to_bf16 ? source(got) : got) - exact);
    return distance == 0 ? 0 : static_cast<double>(distance / allowed);
  }

 private:
  /// Of the values that are cast to the bf16 number `got`, the nearest to `exact` ([Bound:bf16]);
  /// both ties at the ends of that interval are among them.
  long double source(double got) const {
    const auto code = std::bit_cast<std::uint32_t>(static_cast<float>(std::fabs(got))) >> 16;
    const auto value_of = [](std::uint32_t of) -> long double {
      constexpr std::uint32_t infinite = 0x7F80;  // as a tie has it: the next power of two
      return of == infinite ? 0x1p128L : std::bit_cast<float>(of << 16);
    };
    const long double above = (value_of(code) + value_of(code + 1)) / 2;
    if (code == 0) return std::clamp(exact, -above, above);
    const long double below = (value_of(code - 1) + value_of(code)) / 2;
    return got < 0 ? std::clamp(exact, -above, -below) : std::clamp(exact, below, above);
  }
};

}  // namespace zeroproof::verification
