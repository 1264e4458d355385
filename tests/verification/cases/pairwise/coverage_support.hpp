#pragma once

#include <vector>

#include "verification/cases/pairwise/covering_array.hpp"

namespace zeroproof::tests {

/// The runs of byte_gpt_tiny, the possible pairs, and the rows of --cover pairs; computed once.
struct TinyRows {
  verification::RunSpace space{{}, "byte_gpt_tiny"};
  verification::PossiblePairs possible{space};
  std::vector<verification::CoveredRow> pairs =
      verification::covering_array(space, possible, verification::Strength::pairs, 1);
};

inline const TinyRows& tiny_rows() {
  static const TinyRows rows;
  return rows;
}

}  // namespace zeroproof::tests
