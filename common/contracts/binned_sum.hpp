#pragma once

#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Sums of fp32 values in 24-bit bins, one per element: the second scheme of R11 (binned). hi, lo: [numel] int32, top:
/// [numel] uint8; all zero at the start.
struct BinnedSum {
  Span<std::int32_t> hi;
  Span<std::int32_t> lo;
  Span<std::uint8_t> top;
};

/// Largest number of leaves in one sum: limit of the 32-bit fields.
inline constexpr std::int64_t binned_max_leaves = 128;

/// Adds one leaf.
///
/// Shapes   leaf: [numel] like the fields of sum.
/// Order    none: integers (R11, binned).
/// Exact    bitwise.
/// Errors   invalid_argument if the numels differ.
using BinnedDepositFn = void(const Exec&, Span<const float> leaf, const BinnedSum& sum);

/// Adds a sum of other leaves: both are raised to the larger top, then hi and lo are added as integers. Commutative and
/// associative as long as no more than binned_max_leaves leaves are added.
///
/// Shapes   from, into: [numel]; from keeps its bits.
/// Exact    bitwise.
/// Errors   invalid_argument if the numels differ.
using BinnedMergeFn = void(const Exec&, const BinnedSum& from, const BinnedSum& into);

/// The sums as fp32: exact integers rounded once.
///
/// Shapes   result: [numel].
/// Exact    bitwise. Distance from the true sum: M 2^-24 max|x| + 2^-24 |S| [Sum:binned].
/// Errors   invalid_argument if the numels differ.
using BinnedFinishFn = void(const Exec&, const BinnedSum& sum, Span<float> result);

}  // namespace zeroproof
