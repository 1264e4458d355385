#include <cmath>
#include <limits>

#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/gradients/limb_deposit.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

void deposit_product(double product, DotLimbs& limbs) {
  deposit(std::fabs(product),
          product < 0 ? limbs.negative : limbs.positive);  // NaN counts as positive
}

/// True if the integer of normalised a is at least that of normalised b: the highest limb that
/// differs decides.
bool at_least(const NormLimbs& a, const NormLimbs& b) {
  for (std::size_t i = a.limbs.size(); i-- > 0;) {
    if (a.limbs[i] != b.limbs[i]) return a.limbs[i] > b.limbs[i];
  }
  return true;
}

/// a - b as integers, for normalised a at least b: schoolbook subtraction with borrow.
NormLimbs difference(const NormLimbs& a, const NormLimbs& b) {
  NormLimbs result;
  std::uint64_t borrow = 0;
  for (std::size_t i = 0; i < a.limbs.size(); ++i) {
    const bool last = i + 1 == a.limbs.size();
    const std::uint64_t taken = b.limbs[i] + borrow;
    borrow = !last && a.limbs[i] < taken ? 1 : 0;
    result.limbs[i] = a.limbs[i] + (borrow << 32) - taken;
  }
  return result;
}

}  // namespace

void dot_accumulate(const Exec&, Span<const float> left, Span<const float> right, DotLimbs& limbs) {
  check_same_numel("dot", "left", left.size(), "right", right.size());
  for_each_block(numel(left), [&](std::int64_t begin, std::int64_t count) {
    dot_normalise(
        limbs);  // limbs take 2^32 - 1 deposits between two normalisations; a block has 1024
    const Span<const float> a = part(left, begin, count);
    const Span<const float> b = part(right, begin, count);
    for (std::size_t i = 0; i < a.size(); ++i) {
      deposit_product(double{a[i]} * double{b[i]}, limbs);  // 48 bits: exact in fp64
    }
  });
}

void dot_normalise(DotLimbs& limbs) {
  grad_norm_normalise(limbs.positive);
  grad_norm_normalise(limbs.negative);
}

double dot_finish(const DotLimbs& limbs) {
  const bool above = limbs.positive.inf_count > 0;
  const bool below = limbs.negative.inf_count > 0;
  const bool nan = limbs.positive.nan_count > 0 || limbs.negative.nan_count > 0;
  if (nan || (above && below)) return std::numeric_limits<double>::quiet_NaN();
  if (above) return std::numeric_limits<double>::infinity();
  if (below) return -std::numeric_limits<double>::infinity();

  DotLimbs normalised = limbs;
  dot_normalise(normalised);
  const auto& [positive, negative] = normalised;
  // The sum of magnitudes of one sign: its integer is rounded once, as in R12, form one.
  if (at_least(positive, negative)) return grad_abs_finish(difference(positive, negative));
  return -grad_abs_finish(difference(negative, positive));
}

}  // namespace zeroproof::reference
