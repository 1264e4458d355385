#pragma once
// Estimated duration of a selection.

#include "verification/cases/suites/selection.hpp"

namespace zeroproof::verification {

/// Seconds on all cores of this machine. A rough estimate from the sizes of models and the numbers
/// of steps and cases, with costs measured once on one machine: correct within a small factor, and
/// monotonic in every size.
double estimated_seconds(const VerifyOptions& options, const Selection& selection);

}  // namespace zeroproof::verification
