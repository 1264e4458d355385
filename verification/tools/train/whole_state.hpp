#pragma once

#include "common/step/state_source.hpp"
#include "verification/compare/judge/snapshot.hpp"

namespace zeroproof::verification {

/// All state of a source, for an optimizer that takes it as a whole. setup.layout must be the
/// undistributed one, `whole`. Errors: those of the source; config, if it is distributed.
Snapshot whole_state(const StateSource& source, const OptimizerSetup& setup,
                     const FlatLayout& whole);

}  // namespace zeroproof::verification
