#pragma once

#include <cmath>
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

  /// Error in units of the bound; above 1 if no legal order results in it, infinite for a result of
  /// a class that no legal order produces.
  double ratio(double got) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (!judged) return classes.contains(ResultClasses::of(got)) ? 0 : infinity;
    if (std::isnan(exact)) return std::isnan(got) ? 0 : infinity;
    if (std::isinf(exact)) return static_cast<long double>(got) == exact ? 0 : infinity;
    if (!std::isfinite(got)) return infinity;
    const long double distance = std::fabs(static_cast<long double>(got) - exact);
    return distance == 0 ? 0 : static_cast<double>(distance / allowed);
  }
};

}  // namespace zeroproof::verification
