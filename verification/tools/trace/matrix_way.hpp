#pragma once
// Matrices of the rule muon (R28) in phase update: directions, the ranks that bring them together, and results.

#include <cstdint>
#include <string>
#include <vector>

#include "common/io/json.hpp"
#include "verification/tools/trace/trace.hpp"

namespace zeroproof::verification {

/// One matrix in one step.
struct MatrixWay {
  /// An element: of the direction e, as the rank that owns it computes it, and of the result O.
  struct Element {
    std::int64_t parameter = 0;  ///< as in elements_of()
    int rank = 0;                ///< that owns it; in stage 0 the first
    float direction = 0, orthogonal = 0;
  };
  std::int64_t tensor = 0;
  std::vector<int> computed_by;   ///< ranks that orthogonalise it
  std::vector<Element> elements;  ///< row after row
};

/// Of the side that is shown; none in a skipped step, or with another rule.
std::vector<MatrixWay> matrix_ways(const StepTrace& trace, std::size_t step);

/// A table for every matrix.
std::string matrices_text(const StepTrace& trace, std::size_t step);

/// "matrices": of phase update.
Json matrices_json(const StepTrace& trace, std::size_t step, Phase phase);

}  // namespace zeroproof::verification
