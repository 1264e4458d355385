#pragma once

#include <array>
#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Elements per chunk of the norm; tensors start and shards are split at multiples of it.
inline constexpr std::int64_t norm_chunk_numel = 1024;

/// The sum of squares as an integer: limb i has weight 2^(32 i - 352), so addition is exact and order-free
/// [Norm:limbs].
struct NormLimbs {
  std::array<std::uint64_t, 21> limbs{};
  std::uint64_t nan_count = 0;
  std::uint64_t inf_count = 0;

  bool operator==(const NormLimbs&) const = default;
};

/// Adds the chunk sums of a piece of one tensor to the limbs.
///
/// Shapes   grad: [numel], numel >= 0, starting at a chunk boundary of its tensor; the last chunk may be
///          short (missing elements count +0).
/// Order    the 32 lanes and the halving tree of R12 inside a chunk; integers across chunks.
/// Exact    bitwise: the represented value and the two counts. Carries may be left in the upper halves of the
///          limbs until grad_norm_normalise.
/// Contract R12. Distance from the true norm: [Norm:chunk].
using GradNormAccumulateFn = void(const Exec&, Span<const float> grad, NormLimbs& limbs);

/// The form `exact`: adds the exact square of every element to the limbs.
///
/// Shapes   grad: [numel], numel >= 0, any piece of any tensor, split anywhere.
/// Order    none: integers. A NaN adds 1 to nan_count, an infinity of either sign 1 to inf_count, a zero nothing.
/// Exact    bitwise: the represented value and the two counts. At most 2^32 - 1 deposits may go into limbs between
///          two normalisations; an implementation normalises in between when there are more.
/// Contract R12. Finished by grad_norm_finish. Distance from the true norm: [Norm:exact].
using GradNormExactAccumulateFn = void(const Exec&, Span<const float> grad, NormLimbs& limbs);

/// The 1-norm [Clip:forms]: adds the exact absolute value of every element to the limbs. Otherwise as
/// GradNormExactAccumulateFn.
///
/// Contract R12. Finished by grad_abs_finish.
using GradAbsAccumulateFn = void(const Exec&, Span<const float> grad, NormLimbs& limbs);

/// The infinity norm: raises amax to the largest of the elements' magnitudes as integers: bits & 0x7FFFFFFF, and
/// 0x7FFFFFFF for a NaN.
///
/// Shapes   grad: [numel], numel >= 0. amax starts at 0; ranks combine theirs by integer maximum.
/// Exact    bitwise.
/// Contract R12, R14.
using GradMaxAccumulateFn = void(const Exec&, Span<const float> grad, std::uint32_t& amax);

/// Moves carries up so that every limb but the last is below 2^32. Bitwise. Two implementations may hold the
/// same value with different carries before this, so limbs are compared only after it.
using GradNormNormaliseFn = void(NormLimbs& limbs);

/// Global norm from limbs that hold all ranks' chunks (normalised or not).
///
/// Returns  NaN if nan_count > 0, else +inf if inf_count > 0, else sqrt of the sum rounded once to fp64.
/// Exact    bitwise.
/// Contract R12.
using GradNormFinishFn = double(const NormLimbs& limbs);

/// 1-norm from limbs that hold all ranks' absolute values (normalised or not).
///
/// Returns  NaN if nan_count > 0, else +inf if inf_count > 0, else the sum rounded once to fp64 (no square root).
/// Exact    bitwise.
/// Contract R12.
using GradAbsFinishFn = double(const NormLimbs& limbs);

/// Infinity norm: the fp32 value with the bits amax, widened to fp64 (0x7FFFFFFF and everything else above infinity
/// is NaN). No root is taken.
///
/// Exact    bitwise.
/// Contract R12.
using GradMaxFinishFn = double(std::uint32_t amax);

/// Norm of one buffer for any other p: (sum |x|^p)^(1/p) in fp64.
///
/// Shapes   grad: [numel], numel >= 0; an empty one has norm +0.
/// Units    p: finite, p > 0. (1, 2 and infinity have their own forms, but are legal here.)
/// Order    free, except that every |x| is divided by the largest magnitude first, so that no power overflows:
///          N = amax * (sum (|x| / amax)^p)^(1/p).
/// Exact    bounded: relative error at most 1.01 * ((numel + 50) / p + 8) * 2^-53 for numel < 2^40 and a finite
///          result (derived in papers/summation.md, [Norm:p]). A step with bitwise guarantees rejects this form.
/// Special  any NaN: NaN; else any infinity: +inf; all zeros: +0.
/// Errors   invalid_argument unless p is finite and > 0.
/// Contract R12.
using GradNormPFn = double(const Exec&, Span<const float> grad, double p);

}  // namespace zeroproof
