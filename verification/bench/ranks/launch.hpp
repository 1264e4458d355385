#pragma once

#include "verification/bench/ranks/options.hpp"

namespace zeroproof::verification::bench {

/// Starts one job of this program per number of ranks and prints what they say. Returns the largest exit
/// code.
/// Errors: unavailable if mpirun cannot be started; io if there can be no temporary file.
int launch_jobs(const RankOptions& options);

}  // namespace zeroproof::verification::bench
