#pragma once
// A sum of terms that are not negative, and its error in fp32 for any order of additions, from the terms themselves.

#include <cstdint>
#include <map>

#include "verification/compare/bounds/model.hpp"

namespace zeroproof::verification {

/// Terms |x|^p of a norm, by their binades.
class PowerSum {
 public:
  using Real = bounds::Real;

  /// A finite term, 0 or more.
  void add(Real term);
  /// `count` terms of which only the sum is known.
  void add_unknown(Real sum, std::int64_t count);
  void add(const PowerSum& other);

  Real total() const { return total_; }
  std::int64_t count() const { return count_; }  ///< of terms other than 0, which change no sum

  /// The error of the sum relative to total(), in fp32 and in any order.
  /// Source   [Bound:norm_sum].
  Real sum_error() const;

  /// The error of the norm, the p-th root of the sum, relative to it; negative if there is no useful bound: p below
  /// 1/2, or an error of the sum above 0.6.
  /// Source   [Bound:norm_large].
  Real norm_error(Real p) const;

 private:
  struct Binade {
    Real sum = 0;
    std::int64_t count = 0;
  };

  std::map<int, Binade> binades_;
  Binade unknown_;
  Real total_ = 0, lost_ = 0;  // Kahan: the error of the total does not grow with its length
  std::int64_t count_ = 0;
};

}  // namespace zeroproof::verification
