// The exact sum of squares in C++, in 21 limbs of integers (lesson 5; rule R12, form exact).

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::mine {

/// Adds the exact square of every element to the limbs; limb i has weight 2^(32 i - 352). A NaN
/// adds 1 to nan_count, an infinity of either sign 1 to inf_count, a zero nothing. Previous values
/// of the limbs stay in the sum. A limb may exceed 32 bits: carries are moved later, and only the
/// value and the two counts are compared.
void grad_norm_exact_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  // TODO: every element as n * 2^q, its square as n * n * 2^(2 q), its digits into three limbs
}

}  // namespace zeroproof::mine
