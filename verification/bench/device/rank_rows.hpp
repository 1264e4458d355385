#pragma once

#include "verification/bench/rows.hpp"

namespace zeroproof::verification::bench {

/// Phase reduce of ranks that share the devices of this machine, by copies, during layers of a
/// given duration.
Group measure_device_ranks(std::int64_t numel, int ranks, int rounds);

}  // namespace zeroproof::verification::bench
