#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verification/compare/bounds/element_bound.hpp"

namespace zeroproof::verification {

struct Op;
class OpCall;

/// Distance of results without the contract's bits from exact arithmetic, in units of the bound
/// over all legal orders of operations.
struct BoundRatio {
  double worst = 0;    ///< error / bound, the largest; above 1, or NaN: no legal order
  std::string buffer;  ///< where that is
  std::int64_t index = -1;
  std::int64_t judged = 0;  ///< elements to which the bound applies
  /// elements to which it does not apply: overflow, negative second moments, roots of rounding
  /// errors
  std::int64_t outside = 0;

  std::int64_t beyond = 0;  ///< elements outside their bound
  /// Whether in every call all of them are in its last `numel mod w` elements, a bit for each w of
  /// `vector_widths`.
  std::uint32_t remainders = ~0U;
  static constexpr std::int64_t vector_widths[] = {4, 8, 16, 32, 64};

  /// Keeps the larger one; a NaN is larger than any number.
  void add(const BoundRatio& other);
  /// Adds one result, element `i` of `numel` of a buffer.
  void look(const std::string& of, std::int64_t i, std::int64_t numel, const ElementBound& bound,
            double got);
};

/// "within the bound of any legal order: at most 0.93 of it, in master; another order of the same
/// formula, ...", or the element beyond its bound, with the ratio.
std::string to_string(const BoundRatio& ratio);

/// The results of a call against Op::bounds, which the operation must have: one for every operand,
/// empty for operands that are only read.
std::vector<BoundRatio> bound_ratios(const Op& op, const OpCall& pristine, const OpCall& candidate);

/// The maximum over all operands.
BoundRatio bound_ratio(const Op& op, const OpCall& pristine, const OpCall& candidate);

}  // namespace zeroproof::verification
