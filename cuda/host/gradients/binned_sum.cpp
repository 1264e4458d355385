// Sums of fp32 values in 24-bit bins (R11, binned). The loops have no branches, so that compilers
// can vectorize them.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

constexpr std::int32_t special = 255;  // top of a sum that contains an infinity or NaN
constexpr std::int32_t num_bins = 12;

struct Fields {
  std::int32_t hi, lo, top;
};

/// Raises the top to bin `bin`; does nothing if it is not above the top.
inline Fields raised(Fields sum, std::int32_t bin) {
  const bool up = bin > sum.top;
  const std::int32_t below = bin == sum.top + 1 ? sum.hi : 0;
  return {up ? 0 : sum.hi, up ? below : sum.lo, up ? bin : sum.top};
}

inline Fields deposited(Fields sum, float leaf) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(leaf);
  const std::uint32_t exponent = bits >> 23 & 0xFFU;
  const std::uint32_t n = (bits & 0x7FFFFFU) | (exponent != 0 ? 0x800000U : 0U);
  const std::uint32_t s = (exponent != 0 ? exponent : 1U) - 1U;
  const std::uint32_t bin = s * 171U >> 12;  // floor(s / 24), for s < 256
  const std::uint32_t shift = s - bin * 24U;
  const bool whole = shift == 0;
  const std::int32_t high = static_cast<std::int32_t>(whole ? n : n >> (24U - shift));
  const std::int32_t low = static_cast<std::int32_t>(whole ? 0U : n << shift & 0xFFFFFFU);
  const std::int32_t sign = -static_cast<std::int32_t>(bits >> 31);  // 0 or -1
  const bool finite = exponent != 0xFFU;
  const std::int32_t h = finite ? (high ^ sign) - sign : 0;
  const std::int32_t l = finite ? (low ^ sign) - sign : 0;
  const std::int32_t b = finite ? static_cast<std::int32_t>(bin) + (whole ? 0 : 1) : special;
  // A zero is n = 0 in bin 0: it raises nothing and adds nothing.
  sum = raised(sum, b);
  const bool at_top = b == sum.top;
  const bool below_top = b == sum.top - 1;
  sum.hi += at_top ? h : 0;
  sum.lo += at_top ? l : below_top ? h : 0;
  return sum;
}

void require_fields(const char* op, std::size_t numel, const BinnedSum& sum) {
  require_same_numel(op, "the other operand", numel, "hi", sum.hi.size());
  require_same_numel(op, "the other operand", numel, "lo", sum.lo.size());
  require_same_numel(op, "the other operand", numel, "top", sum.top.size());
}

/// 2^(24 * max(top - 1, 0) - 149): as fp64, because fp32 has no exact product with the smallest of them.
std::array<double, num_bins> unit_of_top() {
  std::array<double, num_bins> units;
  for (int top = 0; top < num_bins; ++top) {
    units[top] = std::ldexp(1.0, 24 * std::max(top - 1, 0) - 149);
  }
  return units;
}

}  // namespace

void binned_deposit(const Exec& exec, Span<const float> leaf, const BinnedSum& sum) {
  require_fields("binned_deposit", leaf.size(), sum);
  parallel_blocks(exec, numel(leaf), [&](std::int64_t begin, std::int64_t end) {
    const float* source = leaf.data() + begin;
    std::int32_t* hi = sum.hi.data() + begin;
    std::int32_t* lo = sum.lo.data() + begin;
    std::uint8_t* top = sum.top.data() + begin;
#pragma omp simd
    for (std::int64_t i = 0; i < end - begin; ++i) {
      const Fields fields = deposited({hi[i], lo[i], top[i]}, source[i]);
      hi[i] = fields.hi;
      lo[i] = fields.lo;
      top[i] = static_cast<std::uint8_t>(fields.top);
    }
  });
}

void binned_merge(const Exec& exec, const BinnedSum& from, const BinnedSum& into) {
  require_fields("binned_merge", from.hi.size(), from);
  require_fields("binned_merge", from.hi.size(), into);
  parallel_blocks(exec, numel(from.hi), [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const Fields arrived{from.hi[k], from.lo[k], from.top[k]};
      const Fields here{into.hi[k], into.lo[k], into.top[k]};
      const Fields theirs = raised(arrived, here.top);
      const Fields ours = raised(here, arrived.top);
      into.hi[k] = ours.hi + theirs.hi;
      into.lo[k] = ours.lo + theirs.lo;
      into.top[k] = static_cast<std::uint8_t>(ours.top);
    }
  });
}

void binned_finish(const Exec& exec, const BinnedSum& sum, Span<float> result) {
  require_fields("binned_finish", result.size(), sum);
  static const std::array<double, num_bins> units = unit_of_top();
  parallel_blocks(exec, numel(result), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const std::int32_t top = sum.top[k];
      if (top >= num_bins) {
        result[k] = std::numeric_limits<float>::quiet_NaN();
        continue;
      }
      const std::int64_t hi = sum.hi[k];
      const std::int64_t value = top > 0 ? hi * (std::int64_t{1} << 24) + sum.lo[k] : hi;
      const double rounded = static_cast<float>(value);  // the one rounding
      result[k] = static_cast<float>(rounded * units[top]);
    }
  });
}

}  // namespace zeroproof::cuda::host
