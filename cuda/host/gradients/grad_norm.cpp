#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

void deposit(double chunk_value, NormLimbs& limbs) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(chunk_value);
  const std::uint64_t fraction = bits & 0xFFFFFFFFFFFFFULL;
  const int exponent =
      static_cast<int>(bits >> 52 & 0x7FFU);  // the sign is always +: these are sums of squares
  if (exponent == 0x7FF) {
    ++(fraction != 0 ? limbs.nan_count : limbs.inf_count);
    return;
  }
  if (exponent == 0) return;  // +0: the smallest square is 2^-298, far above fp64's subnormals
  const std::uint64_t mantissa = fraction | 1ULL << 52;
  const unsigned bit = static_cast<unsigned>(exponent - 1075 + 352);
  const unsigned shift = bit % 32;
  const std::size_t limb = bit / 32;
  const std::uint64_t low = mantissa << shift;
  const std::uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  limbs.limbs[limb] += low & 0xFFFFFFFFU;
  limbs.limbs[limb + 1] += low >> 32;
  limbs.limbs[limb + 2] += high;
}

void merge(const NormLimbs& from, NormLimbs& into) {
  for (std::size_t i = 0; i < into.limbs.size(); ++i) into.limbs[i] += from.limbs[i];
  into.nan_count += from.nan_count;
  into.inf_count += from.inf_count;
}

void grad_norm_accumulate(const Exec& exec, Span<const float> grad, NormLimbs& limbs) {
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_sum(
      exec, numel(grad), limbs,
      [&](std::int64_t begin, std::int64_t end, NormLimbs& mine) {
        std::array<double, block_numel / norm_chunk_numel> sums;
        kernels.chunk_sums(grad.data() + begin, end - begin, sums.data());
        const std::int64_t chunks = (end - begin + norm_chunk_numel - 1) / norm_chunk_numel;
        for (std::int64_t c = 0; c < chunks; ++c) deposit(sums[c], mine);
      },
      merge);
}

void grad_norm_normalise(NormLimbs& limbs) {
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i + 1 < limbs.limbs.size(); ++i) {
    // A limb near 2^64 plus the carry could wrap, so the two halves are added separately.
    const std::uint64_t low = (limbs.limbs[i] & 0xFFFFFFFFU) + (carry & 0xFFFFFFFFU);
    carry = (limbs.limbs[i] >> 32) + (carry >> 32) + (low >> 32);
    limbs.limbs[i] = low & 0xFFFFFFFFU;
  }
  limbs.limbs.back() += carry;
}

/// The sum itself, rounded once: the 1-norm, and the square of the 2-norm.
double grad_abs_finish(const NormLimbs& limbs) {
  if (limbs.nan_count > 0) return std::numeric_limits<double>::quiet_NaN();
  if (limbs.inf_count > 0) return std::numeric_limits<double>::infinity();
  NormLimbs digits = limbs;
  grad_norm_normalise(digits);
  const auto& d = digits.limbs;
  int top = static_cast<int>(d.size()) - 1;
  while (top >= 0 && d[top] == 0) --top;
  if (top < 0) return 0.0;

  // The 96 bits from the top digit down hold at least 65 significant ones; everything below them is sticky.
  const auto digit = [&](int i) { return i >= 0 ? d[i] : 0ULL; };
  const int width = 64 - std::countl_zero(digit(top));
  const std::uint64_t below = digit(top - 1) << 32 | digit(top - 2);
  std::uint64_t head = width < 64 ? digit(top) << (64 - width) | below >> width : digit(top);
  bool sticky = width < 64 ? (below << (64 - width)) != 0 : below != 0;
  for (int i = top - 3; i >= 0; --i) sticky = sticky || digit(i) != 0;
  // head has its leading one at bit 63 and weight 2^(32 top + width - 64 - 352).
  const std::uint64_t tail = head & 0x7FFU;
  head >>= 11;
  const bool up = tail > 0x400U || (tail == 0x400U && (sticky || (head & 1U) != 0));
  return std::ldexp(static_cast<double>(head + (up ? 1 : 0)), 32 * top + width - 53 - 352);
}

double grad_norm_finish(const NormLimbs& limbs) { return std::sqrt(grad_abs_finish(limbs)); }

}  // namespace zeroproof::cuda::host
