#pragma once
// Bounds on the distance of the other operations of a step from exact arithmetic, for every legal
// order of computation. An operation that rounds at most once has one result in every order and no
// bound.

#include "common/base/span.hpp"
#include "verification/compare/bounds/element_bound.hpp"

namespace zeroproof::verification {

/// value * factor, or value / fl(1 / factor): unscale and clip. NaN, infinity and 0 have one result.
/// Source   [Bound:scaled]. Not judged where one order overflows and the other does not.
ElementBound product_bound(float value, float factor);

/// min(1, max_norm / (norm + eps)) of a max_norm above 0, in fp32 or fp64.
/// Source   [Bound:coef]. Not judged for a norm below 0 or arguments that fp32 does not have.
ElementBound clip_coef_bound(double norm, double max_norm, double eps = 1e-6);

/// (sum |x|^p)^(1/p), accumulated in fp32 in any order.
/// Source   [Bound:norm]. Not judged for p below 1/2, more than about 300,000 p elements, a norm of 2^127 and above.
ElementBound norm_bound(Span<const float> values, double p);

/// The p-norm in 64-bit significands, of finite values.
long double exact_norm(Span<const float> values, long double p);

/// Result for values that are not all finite: NaN if any value is, else infinity if any is; 0 if
/// all are finite.
float nonfinite_of(Span<const float> values);

/// The sum of these values, added in fp32 in any order.
/// Source   [Sum:any_order].
ElementBound sum_bound(Span<const float> values);

}  // namespace zeroproof::verification
