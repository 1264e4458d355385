#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verification/bench/measure/row.hpp"

namespace zeroproof::verification::bench {

/// Calls every row once per round, in another order each round: what the machine does meanwhile, and what one
/// row leaves in the caches for the next, hits all rows alike. One more round comes first and is not kept.
void measure(std::vector<Row>& rows, int rounds);

/// 0 .. count - 1 in the order of a round; the same in every process.
std::vector<std::size_t> shuffled(std::size_t count, std::uint32_t round);

/// Of this process so far: involuntary context switches, and page faults that were served without a disk.
struct Disturbances {
  long switches = 0;
  long page_faults = 0;
};
Disturbances disturbances();

}  // namespace zeroproof::verification::bench
