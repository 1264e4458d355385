#pragma once
// Rows that together contain every possible value, pair, or triple of a group.

#include <cstdint>
#include <vector>

#include "verification/cases/pairwise/possible.hpp"

namespace zeroproof::verification {

/// Rows in which every possible value occurs, every possible pair of values, or every pair and
/// every triple of a group. Greedy, as in AETG: a row begins with a run that contains an unvisited
/// combination, drawn at random; every other axis gets the value that visits the most new
/// combinations and is still possible. Redundant rows are removed. The result depends on the space
/// and the seed only. `possible` was found with this strength or a higher one.
std::vector<CoveredRow> covering_array(const RunSpace& space, const PossibleCombinations& possible,
                                       Strength strength, std::uint64_t seed);

}  // namespace zeroproof::verification
