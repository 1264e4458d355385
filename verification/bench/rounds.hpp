#pragma once

#include <vector>

#include "verification/bench/row.hpp"

namespace zeroproof::verification::bench {

/// Calls every row once per round, in another order each round: what the machine does meanwhile, and what one
/// row leaves in the caches for the next, hits all rows alike. One more round comes first and is not kept.
void measure(std::vector<Row>& rows, int rounds);

}  // namespace zeroproof::verification::bench
