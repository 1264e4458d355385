#pragma once
// Equal buckets as one entry of PredictedStep::buckets, so that the time of a plan does not depend
// on the number of buckets.

#include <cstdint>
#include <vector>

#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {

/// Splits equal buckets so that each bucket with one of the places inside is an entry of its own,
/// and no place is between equal buckets. places: elements, in increasing order.
void cut_buckets(PredictedStep& shape, const std::vector<std::int64_t>& places);

/// The same where units begin and end, for the stages that reduce unit by unit.
void cut_at_units(PredictedStep& shape);

/// Makes one entry of buckets that are equal except for how much of them every TP rank has. Of
/// neighbours of one length, in stages 2 and 3 inside one unit, at most three entries are left:
/// those in front of the first that has such elements, those that have them, and those that have
/// none; the order of the latter two is lost. The peak of a rank does not depend on it: while they
/// are reduced no other memory is allocated or freed, the memory of their sums only grows, and the
/// last leaf with TP parts still has as many buckets behind it. If a rank holds whole buckets, a
/// leaf's node is taken from those of the sums and the order counts, so only neighbours are joined.
/// Call after the units are set.
void join_buckets(PredictedStep& shape);

}  // namespace zeroproof
