#pragma once
// Sums of squares or magnitudes without rounding (R12, forms exact and one), at the speed of fp64 additions.
//
// The squares of a block of 1024 values with close exponents are integer multiples of a common
// unit, and fp64 adds up to 2^53 such units without rounding. A wider block is split first: adding
// and subtracting a large constant rounds each square to its head, the remainder is the rest, and
// heads and rests are summed separately; this is repeated as often as the exponents require. Only
// blocks with infinities or NaN are processed element by element.

#include <array>
#include <cstdint>

#include "common/contracts/grad_norm.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

enum class ExactTerm : std::uint8_t { square, magnitude };

/// The limbs of NormLimbs with signs, for partial sums before conversion to the form of the
/// contract.
class ExactSum {
 public:
  /// Adds the terms of source[i] * factor, each product rounded to fp32. At most 2^20 elements in all.
  void add(const SimdKernels& kernels, ExactTerm term, float factor, const float* source,
           std::int64_t numel);

  /// The sum so far, normalised.
  NormLimbs limbs() const;

 private:
  void add_block(const SimdKernels& kernels, ExactTerm term, float factor, const float* source,
                 std::int64_t numel);
  void add_element(ExactTerm term, float value);
  void add_double(double value);
  void add_bits(std::uint64_t mantissa, int bit, bool negative);

  std::array<std::int64_t, 21> digits_{};
  std::uint64_t nan_count_ = 0;
  std::uint64_t inf_count_ = 0;
};

}  // namespace zeroproof::cuda::host
