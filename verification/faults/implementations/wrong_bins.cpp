#include "verification/faults/implementations/wrong_bins.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace zeroproof::verification {
namespace {

/// One element's sum: hi counts units of bin `top`, lo those of the bin below.
struct Bins {
  std::int64_t hi = 0;
  std::int64_t lo = 0;
  int top = 0;
};

struct Wrong {
  bool forgets_lower = false;
  bool merges_as_they_are = false;
  bool rounds_twice = false;
};

constexpr std::int64_t bin_units = std::int64_t{1} << 24;

void raise(Bins& bins, int top, bool forgets) {
  if (top <= bins.top) return;
  bins.lo = top == bins.top + 1 && !forgets ? bins.hi : 0;
  bins.hi = 0;
  bins.top = top;
}

/// x is finite.
void deposit(Bins& bins, float x, bool forgets) {
  if (x == 0) return;
  int exponent = 0;
  const double significand = std::frexp(static_cast<double>(std::fabs(x)), &exponent);
  // |x| = n * 2^(s - 149), n of 24 bits where x is normal
  const int s = std::max(exponent + 125, 0);
  const auto n = static_cast<std::int64_t>(std::ldexp(significand, exponent + 149 - s));
  const int bin = (s + 23) / 24;
  const std::int64_t wide = s % 24 == 0 ? n * bin_units : n << s % 24;
  const std::int64_t sign = x < 0 ? -1 : 1;
  const std::int64_t high = sign * (wide / bin_units);
  raise(bins, bin, forgets);
  if (bin == bins.top) {
    bins.hi += high;
    bins.lo += sign * (wide % bin_units);
  } else if (bin == bins.top - 1) {
    bins.lo += high;
  }
}

void merge(Bins& into, Bins from, bool as_they_are) {
  if (as_they_are) {
    into.top = std::max(into.top, from.top);
  } else {
    raise(from, into.top, false);
    raise(into, from.top, false);
  }
  into.hi += from.hi;
  into.lo += from.lo;
}

float finish(const Bins& bins, bool twice) {
  const std::int64_t value = bins.top > 0 ? bins.hi * bin_units + bins.lo : bins.hi;
  const float rounded =
      twice ? static_cast<float>(static_cast<double>(value)) : static_cast<float>(value);
  const int unit = 24 * std::max(bins.top - 1, 0) - 149;
  return static_cast<float>(std::ldexp(static_cast<double>(rounded), unit));
}

/// Every rank adds its gradients to its bins, then the ranks are merged in order. With strided
/// ranks nothing is merged: the owner adds all gradients in arrival order.
Values binned(const Leaves& leaves, const OptimizerSetup& setup, const Wrong& wrong) {
  const bool in_turn = setup.stage >= 2;
  Values sum(leaves.of.front().size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    Bins total;
    bool finite = true;
    for (const Values& leaf : leaves.of) finite = finite && std::isfinite(leaf[i]);
    if (!finite) {
      sum[i] = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    if (in_turn) {
      for (const Values& leaf : leaves.of) deposit(total, leaf[i], wrong.forgets_lower);
    } else {
      for (const std::vector<std::int64_t>& numbers : leaves.rank_leaves) {
        Bins mine;
        for (const std::int64_t u : numbers) deposit(mine, leaves.of[u][i], wrong.forgets_lower);
        merge(total, mine, wrong.merges_as_they_are);
      }
    }
    sum[i] = finish(total, wrong.rounds_twice);
  }
  return sum;
}

}  // namespace

Values lower_bin_forgotten(Leaves& leaves, const OptimizerSetup& setup) {
  return binned(leaves, setup, {.forgets_lower = true});
}

Values bins_merged_unaligned(Leaves& leaves, const OptimizerSetup& setup) {
  return binned(leaves, setup, {.merges_as_they_are = true});
}

Values bins_rounded_twice(Leaves& leaves, const OptimizerSetup& setup) {
  return binned(leaves, setup, {.rounds_twice = true});
}

}  // namespace zeroproof::verification
