#pragma once

#include <vector>

#include "verification/cases/pairwise/covering_array.hpp"

namespace zeroproof::tests {

/// The runs of byte_gpt_tiny and the possible combinations, computed once.
struct TinyRows {
  verification::RunSpace space{{}, "byte_gpt_tiny"};
  verification::PossibleCombinations possible{space, verification::Strength::triples};

  /// The rows of --cover triples, computed once.
  const std::vector<verification::CoveredRow>& triples() const {
    static const std::vector<verification::CoveredRow> rows =
        verification::covering_array(space, possible, verification::Strength::triples, 1);
    return rows;
  }

  /// The rows of --cover pairs, computed once.
  const std::vector<verification::CoveredRow>& pairs() const {
    static const std::vector<verification::CoveredRow> rows =
        verification::covering_array(space, possible, verification::Strength::pairs, 1);
    return rows;
  }
};

inline const TinyRows& tiny_rows() {
  static const TinyRows rows;
  return rows;
}

}  // namespace zeroproof::tests
