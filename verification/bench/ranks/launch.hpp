#pragma once

#include <string>

#include "verification/bench/ranks/options.hpp"

namespace zeroproof::verification::bench {

/// What an environment has for malloc: "MALLOC_MMAP_MAX_=0 ...", "" for nothing. A job is warm if it is told to map
/// nothing of its own.
std::string malloc_settings();
bool malloc_is_warm();

/// Starts one job of this program per number of ranks and setting of malloc, and prints what they say. Returns the
/// largest exit
/// code.
/// Errors: unavailable if mpirun cannot be started; io if there can be no temporary file.
int launch_jobs(const RankOptions& options);

}  // namespace zeroproof::verification::bench
