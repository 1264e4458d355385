#pragma once

#include <array>
#include <cstdint>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Elements per chunk of the norm; tensors start and shards are cut at multiples of it.
inline constexpr std::int64_t norm_chunk_numel = 1024;

/// The sum of squares as an integer: limb i has weight 2^(32 i - 352), so addition is exact and order-free.
struct NormLimbs {
  std::array<std::uint64_t, 21> limbs{};
  std::uint64_t nan_count = 0;
  std::uint64_t inf_count = 0;

  bool operator==(const NormLimbs&) const = default;
};

/// Adds the chunk sums of a piece of one tensor to the limbs.
///
/// Shapes   grad: [numel], numel >= 0, starting at a chunk boundary of its tensor; the last chunk may be
///          short (what is missing counts +0).
/// Order    the 32 lanes and the halving tree of R12 inside a chunk; integers across chunks.
/// Exact    bitwise: the represented value and the two counts. Carries may be left in the upper halves of the
///          limbs until grad_norm_normalise.
/// Contract R12.
using GradNormAccumulateFn = void(const Exec&, Span<const float> grad, NormLimbs& limbs);

/// Moves carries up so that every limb but the last is below 2^32. Bitwise. Two implementations may hold the
/// same value with different carries before this, so limbs are compared only after it.
using GradNormNormaliseFn = void(NormLimbs& limbs);

/// Global norm from limbs that hold all ranks' chunks (normalised or not).
///
/// Returns  NaN if nan_count > 0, else +inf if inf_count > 0, else sqrt of the sum rounded once to fp64.
/// Exact    bitwise.
/// Contract R12.
using GradNormFinishFn = double(const NormLimbs& limbs);

}  // namespace zeroproof
