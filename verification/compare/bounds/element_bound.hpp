#pragma once

#include <cmath>
#include <limits>

namespace zeroproof::verification {

/// A value in exact arithmetic (64 bits), and how far a result may be from it.
struct ElementBound {
  long double exact = 0;  ///< NaN or an infinity where every legal order has that
  long double allowed = 0;
  bool judged =
      false;  ///< false outside of a bound's conditions, and for what is not kept: nothing is said then

  /// Error in units of the bound; above 1 for what no legal order leaves, NaN for a NaN where a number should be.
  double ratio(double got) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (std::isnan(exact)) return std::isnan(got) ? 0 : infinity;
    if (std::isinf(exact)) return static_cast<long double>(got) == exact ? 0 : infinity;
    const long double distance = std::fabs(static_cast<long double>(got) - exact);
    return distance == 0 ? 0 : static_cast<double>(distance / allowed);
  }
};

}  // namespace zeroproof::verification
