#pragma once

#include "verification/case.hpp"
#include "verification/experiment.hpp"

namespace zeroproof::verification {

/// Sets status and reason of a case whose other fields are filled in.
///
/// fail: any element differs, anything was written that may not be, or a trajectory hash is not the one of
/// the undistributed optimizer (`truth_hash`, where known). error, hung, skipped: `error` says why.
/// mistrusted: nothing differs, but the run proved little: nothing was compared, most masters never moved,
/// clipping was on and never bound, or a dynamic scaler never met an overflow.
void judge(CaseResult& result, const Experiment& experiment, const std::optional<Digest>& truth_hash,
           Status error_status, const std::string& error);

/// One line for a divergence: "step 3, phase update, rank 1: master ...".
std::string describe(const Divergence& divergence);

}  // namespace zeroproof::verification
