#pragma once
// How long a selection takes, before it runs.

#include "verification/cases/suites/selection.hpp"

namespace zeroproof::verification {

/// Seconds of this machine's cores together. A rough number from the sizes of models and the numbers of steps and
/// cases, with costs that were measured once on one machine: right within a factor of a few, and monotonic in every
/// size.
double estimated_seconds(const VerifyOptions& options, const Selection& selection);

}  // namespace zeroproof::verification
