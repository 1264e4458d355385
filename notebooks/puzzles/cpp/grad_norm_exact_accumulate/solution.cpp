// grad_norm_exact_accumulate: adds the digits of n * n to three limbs.

#include <bit>
#include <cstdint>

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::mine {

void grad_norm_exact_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  for (const float x : grad) {
    const auto bits = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU;
    limbs.nan_count += bits > 0x7F800000U ? 1 : 0;
    limbs.inf_count += bits == 0x7F800000U ? 1 : 0;
    if (bits == 0 || bits >= 0x7F800000U) continue;
    // x is n * 2^(e - 150), with e = 1 if subnormal; its square is n * n * 2^(2 e - 300).
    const std::uint32_t exponent = bits >> 23, digits = bits & 0x7FFFFFU;
    const std::uint64_t n = exponent == 0 ? digits : digits | 0x800000U;
    const std::uint32_t place = 2 * (exponent == 0 ? 1 : exponent) - 300 + 352;
    const std::uint64_t square = n * n, shift = place % 32;
    const std::uint64_t low = (square & 0xFFFFFFFFU) << shift, high = (square >> 32) << shift;
    limbs.limbs[place / 32] += low & 0xFFFFFFFFU;
    limbs.limbs[place / 32 + 1] += (low >> 32) + (high & 0xFFFFFFFFU);
    limbs.limbs[place / 32 + 2] += high >> 32;
  }
}

}  // namespace zeroproof::mine
