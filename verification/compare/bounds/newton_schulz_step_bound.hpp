#pragma once
// How far any order of summation, and any rounding of stored matrices, may move the elements of one iteration of
// Newton-Schulz (papers/bounds.md, [Bound:newton_schulz_step]).

#include <vector>

#include "verification/compare/bounds/newton_schulz_bound.hpp"

namespace zeroproof::verification {

/// The elements of the result after iteration `step`, counted from 0, in exact arithmetic, and their bounds.
///
/// Shapes   matrix: [rows, columns], the operation's input for step 0, and what the implementation returns for `step`
///          iterations otherwise.
/// Special  Not judged: a matrix with elements from 2^20 on after the first step; by class: an input whose squares
///          might overflow.
/// Errors   invalid_argument if matrix has another numel.
std::vector<ElementBound> newton_schulz_step_bounds(const NewtonSchulzOptions& options, int step,
                                                    std::int64_t rows, std::int64_t columns,
                                                    Span<const float> matrix,
                                                    const MatrixRounding& rounding);

}  // namespace zeroproof::verification
