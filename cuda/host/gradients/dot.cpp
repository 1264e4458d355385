#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/gradients/limb_deposit.hpp"
#include "cuda/host/operations.hpp"

namespace zeroproof::cuda::host {
namespace {

// A product of two fp32 values is exact in fp64 and, unless it is 0, in [2^-298, 2^256): these are
// its exponents.
constexpr int first_exponent = 1023 - 298;
constexpr int last_exponent = 1023 + 255;
// Its significand has 48 bits, so the last 5 of fp64's 53 are 0. Without them a 64-bit integer holds 2^15 of them.
constexpr int spare_bits = 5;
static_assert(block_numel <= 1 << 15);

/// Products of one sign, summed per exponent by integer addition.
using Buckets = std::array<std::uint64_t, last_exponent - first_exponent + 1>;

void add_digits(std::uint64_t value, int bit, NormLimbs& limbs) {
  const auto limb = static_cast<std::size_t>(bit / 32);
  const unsigned shift = static_cast<unsigned>(bit % 32);
  const std::uint64_t low = value << shift;
  limbs.limbs[limb] += low & 0xFFFFFFFFU;
  limbs.limbs[limb + 1] += low >> 32;
  limbs.limbs[limb + 2] += shift == 0 ? 0 : value >> (64 - shift);
}

void flush(const Buckets& buckets, NormLimbs& limbs) {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    // A significand without its spare bits counts units of 2^(exponent - 1075 + 5); limbs start at 2^-352.
    const int bit = static_cast<int>(i) + first_exponent - 1075 + spare_bits + 352;
    if (buckets[i] != 0) add_digits(buckets[i], bit, limbs);
  }
}

DotLimbs block_limbs(const float* left, const float* right, std::int64_t numel) {
  std::array<Buckets, 2> buckets{};  // above 0, below 0
  DotLimbs limbs;
  for (std::int64_t i = 0; i < numel; ++i) {
    const double product = static_cast<double>(left[i]) * static_cast<double>(right[i]);
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(product);
    const bool negative = bits >> 63 != 0;
    const int exponent = static_cast<int>(bits >> 52 & 0x7FFU);
    if (exponent == 0x7FF) {
      NormLimbs& side = negative && !std::isnan(product) ? limbs.negative : limbs.positive;
      ++(std::isnan(product) ? side.nan_count : side.inf_count);
    } else if (exponent != 0) {
      const std::uint64_t significand = (bits & 0xFFFFFFFFFFFFFULL) | 1ULL << 52;
      buckets[negative ? 1 : 0][exponent - first_exponent] += significand >> spare_bits;
    }
  }
  flush(buckets[0], limbs.positive);
  flush(buckets[1], limbs.negative);
  dot_normalise(limbs);
  return limbs;
}

}  // namespace

void dot_accumulate(const Exec& exec, Span<const float> left, Span<const float> right,
                    DotLimbs& limbs) {
  require_same_numel("dot_accumulate", "left", left.size(), "right", right.size());
  std::mutex mutex;
  DotLimbs total;
  parallel_blocks(exec, numel(left), [&](std::int64_t begin, std::int64_t end) {
    const DotLimbs block = block_limbs(left.data() + begin, right.data() + begin, end - begin);
    const std::lock_guard lock(mutex);
    merge(block.positive, total.positive);
    merge(block.negative, total.negative);
  });
  // A block is one deposit of digits below 2^32; the present value of the caller's limbs is unknown
  // here.
  dot_normalise(total);
  dot_normalise(limbs);
  merge(total.positive, limbs.positive);
  merge(total.negative, limbs.negative);
}

void dot_normalise(DotLimbs& limbs) {
  grad_norm_normalise(limbs.positive);
  grad_norm_normalise(limbs.negative);
}

double dot_finish(const DotLimbs& limbs) {
  DotLimbs sum = limbs;
  dot_normalise(sum);
  const bool up = sum.positive.inf_count > 0;
  const bool down = sum.negative.inf_count > 0;
  if (sum.positive.nan_count > 0 || sum.negative.nan_count > 0 || (up && down)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (up || down) return (up ? 1 : -1) * std::numeric_limits<double>::infinity();
  bool negative = false;
  for (std::size_t i = sum.positive.limbs.size(); i-- > 0;) {
    if (sum.positive.limbs[i] == sum.negative.limbs[i]) continue;
    negative = sum.positive.limbs[i] < sum.negative.limbs[i];
    break;
  }
  const NormLimbs& larger = negative ? sum.negative : sum.positive;
  const NormLimbs& smaller = negative ? sum.positive : sum.negative;
  NormLimbs difference;
  std::int64_t borrow = 0;
  for (std::size_t i = 0; i < difference.limbs.size(); ++i) {
    const std::int64_t digit = static_cast<std::int64_t>(larger.limbs[i]) -
                               static_cast<std::int64_t>(smaller.limbs[i]) + borrow;
    const bool last =
        i + 1 == difference.limbs.size();  // it keeps the carry that does not fit below it
    borrow = last ? 0 : digit >> 32;
    difference.limbs[i] = static_cast<std::uint64_t>(last ? digit : digit & 0xFFFFFFFF);
  }
  const double magnitude = grad_abs_finish(difference);
  return negative ? -magnitude : magnitude;
}

}  // namespace zeroproof::cuda::host
