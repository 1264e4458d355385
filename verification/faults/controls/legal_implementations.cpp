#include "verification/faults/controls/legal_implementations.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "verification/ops/operations/update_settings.hpp"

namespace zeroproof::verification {

void swapped_adamw(OpCall& call) {
  const StepScalars s =
      update_settings(call.variant() / 4, {}).scalars;  // they do not depend on the options
  const bool amsgrad = call.variant() % 2 == 1;
  const bool maximize = call.variant() / 2 % 2 == 1;
  const Span<const float> grad = call.in<float>(0);
  const Span<float> master = call.get<float>(1);
  const Span<float> exp_avg = call.get<float>(2);
  const Span<float> exp_avg_sq = call.get<float>(3);
  const Span<float> maximum = call.get<float>(4);
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const float g = maximize ? -grad[i] : grad[i];
    const float first = g * s.one_minus_beta1 + exp_avg[i] * s.beta1;
    const float second = (g * g) * s.one_minus_beta2 + exp_avg_sq[i] * s.beta2;
    float below_root = second;
    if (amsgrad) below_root = maximum[i] = maximum[i] >= second ? maximum[i] : second;
    const float root = std::sqrt(below_root) / s.sqrt_bias_correction2;
    float step = first / (s.eps + root) * s.step_size;
    if (s.has_decay != 0) step = master[i] * s.lr_weight_decay + step;
    exp_avg[i] = first;
    exp_avg_sq[i] = second;
    master[i] = master[i] - step;
  }
}

double chunk_sum_with_fma(Span<const float> chunk) {
  std::array<double, 32> lanes{};
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const auto x = static_cast<double>(chunk[i]);
    lanes[i % 32] = std::fma(x, x, lanes[i % 32]);
  }
  for (std::size_t width = 16; width > 0; width /= 2) {
    for (std::size_t l = 0; l < width; ++l) lanes[l] = lanes[l + width] + lanes[l];
  }
  return lanes[0];
}

void deposit_chunk(double sum, NormLimbs& limbs) {
  if (sum != sum) {
    ++limbs.nan_count;
  } else if (std::isinf(sum)) {
    ++limbs.inf_count;
  } else if (sum > 0) {
    int exponent = 0;
    const auto digits = static_cast<std::uint64_t>(std::ldexp(std::frexp(sum, &exponent), 53));
    const auto place = static_cast<std::size_t>(exponent - 53 + 352);
    const std::uint64_t low = (digits & 0xFFFFFFFFU) << place % 32;
    const std::uint64_t high = (digits >> 32) << place % 32;
    limbs.limbs[place / 32] += low & 0xFFFFFFFFU;
    limbs.limbs[place / 32 + 1] += (low >> 32) + (high & 0xFFFFFFFFU);
    limbs.limbs[place / 32 + 2] += high >> 32;
  }
}

std::int64_t leave_carries(NormLimbs& limbs) {
  std::int64_t moved = 0;
  for (std::size_t i = 0; i + 1 < limbs.limbs.size(); ++i) {
    if (limbs.limbs[i + 1] == 0 || limbs.limbs[i] >> 62 != 0) continue;
    limbs.limbs[i] += std::uint64_t{1} << 32;
    --limbs.limbs[i + 1];
    ++moved;
  }
  return moved;
}

}  // namespace zeroproof::verification
