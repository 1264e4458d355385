#pragma once
// Stochastic rounding to bf16 by any generator of random numbers: the neighbours of a value, and how
// often the larger one has to be taken.

#include <memory>

#include "verification/compare/bounds/element_bound.hpp"
#include "verification/ops/call_statistic.hpp"

namespace zeroproof::verification {

/// Within it are both neighbours of a value, and nothing but itself for a bf16 number. Just above a
/// power of two a third number is within it, which rounding_shares() refuses.
ElementBound neighbours_in_bf16(float value);

/// How often values are rounded away from zero, and to the nearer neighbour, compared with R15: the
/// share is the distance from the neighbour nearer to zero, in units of the distance of both. Each
/// call is judged alone, because a generator may repeat its words in the next one: all of its values,
/// and those in each of 16 bins of that distance, may be 6 standard deviations off. Sums with a
/// variance below 100 are not judged; if no call has so many values, that is the problem.
/// Operands: source, target.
std::unique_ptr<CallStatistic> rounding_shares();

}  // namespace zeroproof::verification
