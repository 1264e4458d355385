// caught: phase norm  rank 0  buffer grad_norm

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/contracts/grad_norm.hpp"

namespace zeroproof::mine {

void grad_norm_exact_accumulate(const Exec&, Span<const float> grad, NormLimbs& limbs) {
  double sum = 0;
  for (const float x : grad) sum += static_cast<double>(x) * x;
  const auto bits = std::bit_cast<std::uint64_t>(sum);
  if (bits == 0) return;
  const std::uint64_t n = (bits & 0xFFFFFFFFFFFFFU) | 0x10000000000000U;
  const std::uint64_t place = (bits >> 52) - 1075 + 352, shift = place % 32;
  const std::uint64_t low = (n & 0xFFFFFFFFU) << shift, high = (n >> 32) << shift;
  limbs.limbs[place / 32] += low & 0xFFFFFFFFU;
  limbs.limbs[place / 32 + 1] += (low >> 32) + (high & 0xFFFFFFFFU);
  limbs.limbs[place / 32 + 2] += high >> 32;
}

}  // namespace zeroproof::mine
