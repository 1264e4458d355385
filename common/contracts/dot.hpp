#pragma once

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/grad_norm.hpp"

namespace zeroproof {

/// A dot product as two integers: the magnitudes of products above 0 and of products below 0, in the limbs of
/// the norm [LBFGS:dot]. inf_count of a side counts the infinite products of its sign; a NaN product is
/// counted in positive.nan_count.
struct DotLimbs {
  NormLimbs positive;
  NormLimbs negative;

  bool operator==(const DotLimbs&) const = default;
};

/// Adds the exact products left[i] * right[i] to the limbs.
///
/// Shapes   left, right: [numel], numel >= 0, any piece of any tensor, split anywhere; they may be the same
///          view.
/// Order    none: integers. A zero product of either sign adds nothing; 0 times infinity is a NaN.
/// Exact    bitwise: the represented values and the counts. At most 2^32 - 1 deposits may go into limbs
///          between two normalisations; an implementation normalises in between when there are more.
/// Errors   invalid_argument if the numels differ.
/// Contract R19.
using DotAccumulateFn = void(const Exec&, Span<const float> left, Span<const float> right,
                             DotLimbs& limbs);

/// Moves carries up on both sides, as GradNormNormaliseFn does. Ranks normalise before they add their
/// integers.
using DotNormaliseFn = void(DotLimbs& limbs);

/// The dot product from limbs that hold all ranks' products (normalised or not).
///
/// Returns  NaN if a product was NaN or there are infinite products of both signs; else the infinity, if there is
///          one; else positive - negative as integers, rounded once to fp64 (nearest even); +0 if they are
///          equal. It never overflows and is never subnormal [LBFGS:range].
/// Exact    bitwise.
/// Contract R19.
using DotFinishFn = double(const DotLimbs& limbs);

}  // namespace zeroproof
