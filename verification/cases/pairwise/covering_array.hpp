#pragma once
// Rows that together contain every possible value or pair.

#include <cstdint>
#include <vector>

#include "verification/cases/pairwise/possible.hpp"

namespace zeroproof::verification {

/// Rows in which every possible value occurs, or every possible pair of values. Greedy, as in AETG:
/// a row begins with a run that contains an unvisited value or pair, drawn at random; every other
/// axis gets the value that visits the most new pairs and is still possible. Redundant rows are
/// removed. The result depends on the space and the seed only.
std::vector<CoveredRow> covering_array(const RunSpace& space, const PossiblePairs& possible,
                                       Strength strength, std::uint64_t seed);

}  // namespace zeroproof::verification
