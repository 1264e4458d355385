#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verification/cases/judged_by.hpp"
#include "verification/compare/bounds/element_bound.hpp"

namespace zeroproof::verification {

struct Op;
class OpCall;

/// Distance of results without the contract's bits from exact arithmetic, in units of the bound
/// over all legal orders of operations.
struct BoundRatio {
  double worst =
      0;  ///< error / bound, the largest; above 1: no legal order; infinite: of its class
  std::string buffer;  ///< where that is
  std::int64_t index = -1;
  std::string call;       ///< the call's shape; "" for a single call
  std::string violation;  ///< of an infinite `worst`: "is 0 and has to be NaN"
  JudgedBy judged;

  std::int64_t beyond = 0;  ///< elements outside their bound, or of a wrong class
  /// Whether in every call all of them are in its last `numel mod w` elements, a bit for each w of
  /// `vector_widths`.
  std::uint32_t remainders = ~0U;
  static constexpr std::int64_t vector_widths[] = {4, 8, 16, 32, 64};

  /// Keeps the larger one.
  void add(const BoundRatio& other);
  /// Adds one result, element `i` of `numel` of a buffer. False if no legal order has it. by_powers:
  /// `bound` is one with powers of beta in fp32, and the result is beyond the one without.
  bool look(const std::string& of, std::int64_t i, std::int64_t numel, const ElementBound& bound,
            double got, bool same_bits, bool by_powers = false);

  /// True if legal orders explain all results, of which enough were judged.
  bool legal() const { return beyond == 0 && !judged.too_few(); }
};

/// "within the bound of any legal order: at most 0.93 of it, in master; another order of the same
/// formula, ...", or the element beyond its bound, with the ratio or its class.
std::string to_string(const BoundRatio& ratio);

/// The results of a call against Op::bounds, which the operation must have: one for every operand,
/// empty for operands that are only read. illegal: a copy of the reference, in which the results
/// that no legal order has are replaced by the candidate's; its other results are then without an
/// error. fp32_powers: if one pair of powers of the betas in fp32 leaves fewer results beyond their
/// bounds, the bounds are those with it ([Bound:powers]).
std::vector<BoundRatio> bound_ratios(const Op& op, const OpCall& pristine, const OpCall& reference,
                                     const OpCall& candidate, OpCall* illegal = nullptr,
                                     bool fp32_powers = false);

/// The maximum over all operands.
BoundRatio bound_ratio(const Op& op, const OpCall& pristine, const OpCall& reference,
                       const OpCall& candidate, OpCall* illegal = nullptr,
                       bool fp32_powers = false);

}  // namespace zeroproof::verification
