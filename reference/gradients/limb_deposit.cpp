#include "reference/gradients/limb_deposit.hpp"

#include <cmath>

namespace zeroproof::reference {

void deposit(double magnitude, NormLimbs& limbs) {
  if (std::isnan(magnitude)) {
    limbs.nan_count += 1;
    return;
  }
  if (std::isinf(magnitude)) {
    limbs.inf_count += 1;
    return;
  }
  if (magnitude == 0) return;

  // The magnitude is unit * 2^(q - 352): an integer of 53 bits on the grid of the limbs. The
  // smallest square and the smallest product are 2^-298, a normal fp64; q is in 2 .. 565
  // [Norm:range] [LBFGS:range].
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);  // in [1/2, 1)
  const std::uint64_t unit = static_cast<std::uint64_t>(std::ldexp(fraction, 53));
  const int q = exponent - 53 - lowest_weight;
  const int shift = q % 32;

  // Three 32-bit digits. unit << shift has up to 84 bits, so its low 32 and its high 21 bits are
  // shifted separately.
  const std::uint64_t low = (unit & digit_mask) << shift;
  const std::uint64_t high = ((unit >> 32) << shift) + (low >> 32);
  const std::size_t first = static_cast<std::size_t>(q / 32);
  limbs.limbs[first] += low & digit_mask;
  limbs.limbs[first + 1] += high & digit_mask;
  limbs.limbs[first + 2] += high >> 32;
}

}  // namespace zeroproof::reference
