#pragma once
// Rows that together contain every possible value or pair.

#include <cstdint>
#include <vector>

#include "verification/cases/pairwise/possible.hpp"

namespace zeroproof::verification {

enum class Strength : std::uint8_t { values = 1, pairs = 2 };

/// Rows in which every value that is possible occurs, or every pair of values. Made greedily, as in AETG: a row begins
/// with a run that has something not yet visited, drawn at random, and every other axis gets the value that visits most
/// that is new, as long as the run may be; rows that the others make superfluous are left out. The same for the same
/// space and seed.
std::vector<CoveredRow> covering_array(const RunSpace& space, const PossiblePairs& possible,
                                       Strength strength, std::uint64_t seed);

}  // namespace zeroproof::verification
