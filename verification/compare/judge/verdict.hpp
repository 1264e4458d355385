#pragma once

#include <string_view>

#include "verification/cases/experiment.hpp"
#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// The reason of a mistrusted case whose norm never exceeded max_norm.
inline constexpr std::string_view clipping_never_bound = "clipping is on but never bound";

/// Sets status, reason and sums of a training case whose run and divergence are filled in. fail:
/// any element differs, anything was written that may not be, or a trajectory hash is not the one
/// of the undistributed optimizer (`truth_hash`, where known). error, hung, skipped: `error` has
/// the reason. mistrusted: nothing differs, but the run proved little: nothing was compared, most
/// steps were skipped, most masters never moved, clipping was on and never bound, or a dynamic
/// scaler never met an overflow.
void judge(Result& result, const Experiment& experiment, const std::optional<Digest>& truth_hash,
           Status error_status, const std::string& error);

}  // namespace zeroproof::verification
