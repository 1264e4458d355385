#pragma once
// R11, binned, for one element: integers only until the single rounding of the sum.

#include "cuda/device/kernels/base/host_device.cuh"

namespace zeroproof::cuda::device {

struct BinnedElement {
  std::int32_t hi;
  std::int32_t lo;
  std::uint32_t top;
};

inline constexpr std::uint32_t binned_not_finite =
    255;  ///< top of a sum that contains an infinity or a NaN

/// Bins of a sum are arbitrary once top is 255; they wrap then.
ZP_HOST_DEVICE inline std::int32_t bin_sum(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

/// top >= sum.top.
ZP_HOST_DEVICE inline BinnedElement binned_raised(const BinnedElement& sum, std::uint32_t top) {
  if (top == sum.top) return sum;
  return {0, top == sum.top + 1U ? sum.hi : 0, top};
}

/// Adds one micro-batch gradient. When top becomes 255 the bins become 0, so that their (then
/// meaningless) bits do not depend on the order. From then on every bin of a gradient is far below
/// top, and every gradient is dropped.
ZP_HOST_DEVICE inline BinnedElement binned_deposited(const BinnedElement& sum, float leaf) {
  const std::uint32_t magnitude = bits_of(leaf) & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U) return {0, 0, binned_not_finite};
  if (magnitude == 0U) return sum;
  const std::uint32_t exponent = magnitude >> 23;
  const std::uint32_t significand = (magnitude & 0x7FFFFFU) | (exponent > 0U ? 0x800000U : 0U);
  const std::uint32_t shift =
      exponent > 1U ? exponent - 1U : 0U;  // the gradient is significand * 2^(shift - 149)
  const std::uint32_t bin = (shift + 23U) / 24U;
  const std::uint64_t wide = static_cast<std::uint64_t>(significand) << (shift % 24U);
  // A shift by 0 leaves all bits in their own bin; otherwise 24 bits go to the bin below.
  const auto upper = static_cast<std::int32_t>(shift % 24U == 0U ? wide : wide >> 24);
  const auto lower = static_cast<std::int32_t>(shift % 24U == 0U ? 0U : wide & 0xFFFFFFU);
  const bool negative = (bits_of(leaf) & sign_bit) != 0U;
  const std::int32_t h = negative ? -upper : upper;
  const std::int32_t l = negative ? -lower : lower;

  BinnedElement next = bin > sum.top ? binned_raised(sum, bin) : sum;
  if (bin == next.top) {
    next.hi = bin_sum(next.hi, h);
    next.lo = bin_sum(next.lo, l);
  } else if (bin + 1U == next.top) {
    next.lo = bin_sum(next.lo, h);
  }
  return next;
}

/// Adds two sums.
ZP_HOST_DEVICE inline BinnedElement binned_merged(const BinnedElement& a, const BinnedElement& b) {
  const std::uint32_t top = a.top > b.top ? a.top : b.top;
  if (top == binned_not_finite) return {0, 0, top};
  const BinnedElement x = binned_raised(a, top);
  const BinnedElement y = binned_raised(b, top);
  return {bin_sum(x.hi, y.hi), bin_sum(x.lo, y.lo), top};
}

/// The sum as fp32, rounded once: the factor is a power of two and multiplies an integer of at
/// least 1, so that the product is exact or infinite.
ZP_HOST_DEVICE inline float binned_finished(const BinnedElement& sum) {
  if (sum.top == binned_not_finite) return float_of(0x7FFFFFFFU);
  const std::int64_t value = sum.top > 0U ? static_cast<std::int64_t>(sum.hi) * 0x1000000 + sum.lo
                                          : static_cast<std::int64_t>(sum.hi);
  // 2^(24 (top - 1) - 149): the smallest subnormal up to top = 1, normal from there on.
  const float unit = float_of(sum.top > 1U ? (24U * (sum.top - 1U) - 22U) << 23 : 1U);
  return static_cast<float>(value) * unit;
}

}  // namespace zeroproof::cuda::device
