#pragma once
// Likely causes of numbers that no legal order gives: known mistakes, computed with the same bounds.

#include <string>
#include <vector>

#include "verification/tools/train/dump/legal_run.hpp"
#include "verification/tools/train/dump/legal_verdict.hpp"

namespace zeroproof::verification {

/// The norms and coefficients of a step in the judged file.
ReportedScalars reported_scalars(const DumpPlan& plan, const std::vector<DumpTensor>& tensors,
                                 std::int64_t step, const TheirTensor& theirs);

/// "as if the gradient were divided by 4, the number of micro-batches, twice"; "" if no known mistake gives all numbers
/// of the step. first: the first tensor beyond its bound.
std::string legal_hint(const Experiment& experiment, const DumpPlan& plan,
                       const std::vector<DumpTensor>& tensors, const FullState& start,
                       const TheirTensor& theirs, std::size_t first, bool fp64_betas);

}  // namespace zeroproof::verification
