#include "cuda/host/gradients/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace zeroproof::cuda::host {
namespace {

constexpr std::int64_t exact_block = 1024;
constexpr int count_bits = 10;       // of exact_block
constexpr int double_bits = 53;      // of an fp64 mantissa
constexpr int unit_exponent = -352;  // of bit 0 of the limbs

/// How to split the terms of a block: shifters for all levels but the last. Every level holds 44
/// bits, and squares span at most 554 bits, so 13 levels are always enough.
struct Split {
  int levels = 1;
  std::array<double, most_split_levels - 1> shifters{};
};

/// Every term is a multiple of 2^low and below 2^top.
Split split_for(int low, int top) {
  Split split;
  int bound = top;  // the rest of a term is at most 2^bound
  // Until sums of exact_block such terms are within 2^53 units: then nothing is rounded any more.
  for (; bound + count_bits > low + double_bits; ++split.levels) {
    // Heads are multiples of 2^place, chosen so that their sum just fits. 1.5 * 2^(place + 52)
    // keeps the sum with the shifter between two powers of two for either sign of the rest.
    const int place = bound + count_bits - double_bits;
    split.shifters[split.levels - 1] = std::ldexp(1.5, place + double_bits - 1);
    bound = place - 1;  // the head is the nearest multiple
  }
  return split;
}

}  // namespace

void ExactSum::add(const SimdKernels& kernels, ExactTerm term, float factor, const float* source,
                   std::int64_t numel) {
  for (std::int64_t begin = 0; begin < numel; begin += exact_block) {
    add_block(kernels, term, factor, source + begin, std::min(exact_block, numel - begin));
  }
}

void ExactSum::add_block(const SimdKernels& kernels, ExactTerm term, float factor,
                         const float* source, std::int64_t numel) {
  std::uint32_t smallest = 0, largest = 0;
  kernels.magnitude_range(factor, source, numel, &smallest, &largest);
  if (largest == 0) return;
  if (largest >= 0x7F800000U) {
    for (std::int64_t i = 0; i < numel; ++i) add_element(term, source[i] * factor);
    return;
  }
  // A value with the exponent field e is a multiple of 2^(e - 150) and below 2^(e - 126); e = 0 counts as 1.
  const int scale = term == ExactTerm::square ? 2 : 1;
  const int low = scale * (std::max(static_cast<int>(smallest >> 23), 1) - 150);
  const int top = scale * (std::max(static_cast<int>(largest >> 23), 1) - 126);
  const Split split = split_for(low, top);
  std::array<double, most_split_levels> sums{};
  const auto kernel = term == ExactTerm::square ? kernels.split_squares : kernels.split_magnitudes;
  kernel(factor, source, numel, split.levels, split.shifters.data(), sums.data());
  for (int level = 0; level < split.levels; ++level) add_double(sums[level]);
}

void ExactSum::add_element(ExactTerm term, float value) {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
  if (magnitude >= 0x7F800000U) {
    ++(magnitude > 0x7F800000U ? nan_count_ : inf_count_);
    return;
  }
  const int exponent = static_cast<int>(magnitude >> 23);
  const std::uint64_t fraction = magnitude & 0x7FFFFFU;
  const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | 0x800000U;
  const int place = std::max(exponent, 1) - 150;
  if (term == ExactTerm::square) {
    add_bits(mantissa * mantissa, 2 * place - unit_exponent, false);
  } else {
    add_bits(mantissa, place - unit_exponent, false);
  }
}

/// A sum of terms: never subnormal in fp64, because the smallest is 2^-298.
void ExactSum::add_double(double value) {
  if (value == 0) return;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & 0x7FFU);
  const std::uint64_t mantissa = (bits & 0xFFFFFFFFFFFFFULL) | 1ULL << 52;
  add_bits(mantissa, exponent - 1075 - unit_exponent, bits >> 63 != 0);
}

/// Adds mantissa * 2^bit units, mantissa below 2^53.
void ExactSum::add_bits(std::uint64_t mantissa, int bit, bool negative) {
  const auto limb = static_cast<std::size_t>(bit / 32);
  const unsigned shift = static_cast<unsigned>(bit % 32);
  const std::uint64_t low = mantissa << shift;
  const std::uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const auto put = [&](std::size_t at, std::uint64_t digit) {
    const auto signed_digit = static_cast<std::int64_t>(digit);
    digits_[at] += negative ? -signed_digit : signed_digit;
  };
  put(limb, low & 0xFFFFFFFFU);
  put(limb + 1, low >> 32);
  put(limb + 2, high);
}

NormLimbs ExactSum::limbs() const {
  NormLimbs limbs;
  limbs.nan_count = nan_count_;
  limbs.inf_count = inf_count_;
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < digits_.size(); ++i) {
    const std::int64_t sum = digits_[i] + carry;
    carry = sum >> 32;  // towards minus infinity: the digit below is never negative
    limbs.limbs[i] = static_cast<std::uint64_t>(sum) & 0xFFFFFFFFU;
  }
  return limbs;  // terms are >= 0, so no borrow is left, and the last limb cannot overflow
}

}  // namespace zeroproof::cuda::host
