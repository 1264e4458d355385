#pragma once
// Equal buckets as one entry of PredictedStep::buckets, so that a plan's time is not that of its buckets.

#include <cstdint>
#include <vector>

#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {

/// Cuts equal buckets apart so that each that has one of the places inside stands alone, and none of the places lies
/// between equal ones. places: elements, in increasing order.
void cut_buckets(PredictedStep& shape, const std::vector<std::int64_t>& places);

/// The same where units begin and end, for the stages that reduce unit by unit.
void cut_at_units(PredictedStep& shape);

/// Makes one entry of buckets that are equal but for how much of them every TP rank has. Of neighbours of one length,
/// in stages 2 and 3 inside one unit, at most three entries are left: those in front of the first that has such
/// elements, those that have, and those that have none; which of the latter two stand where is no longer said. What a
/// rank holds at most does not depend on it: while they are reduced nothing else comes or goes, what is held for their
/// sums only grows, and the last leaf with TP parts still has as many buckets behind it. Where a rank holds whole
/// buckets, a leaf's node is taken from those of the sums and the order counts, so only neighbours are joined.
/// After the units are set.
void join_buckets(PredictedStep& shape);

}  // namespace zeroproof
