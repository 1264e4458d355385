#pragma once
// Stochastic rounding to bf16 by any generator of random numbers: the neighbours of a value, and how
// often the larger one has to be taken.

#include <memory>

#include "verification/compare/bounds/element_bound.hpp"
#include "verification/ops/call_statistic.hpp"

namespace zeroproof::verification {

/// Both neighbours of a value are legal, and nothing else; a bf16 number has only itself.
ElementBound neighbours_in_bf16(float value);

/// The share of values that were rounded away from zero is their distance from the neighbour nearer
/// to zero, in units of the distance of both, as R15 defines it. Values are counted in 16 bins of
/// that distance: over all calls each bin must be within 5 standard deviations, in each call with a
/// variance of at least 100 within 6. Operands: source, target.
std::unique_ptr<CallStatistic> rounding_shares();

}  // namespace zeroproof::verification
