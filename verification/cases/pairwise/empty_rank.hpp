#pragma once

#include "verification/cases/pairwise/axis.hpp"

namespace zeroproof::verification {

/// True if some rank owns no element of any tensor under the layout of a run: its model, world,
/// grid, instances, layout, bucket and, in two layouts, param groups decide. False if the run has
/// no layout.
bool has_empty_rank(const CoveredRun& run);

}  // namespace zeroproof::verification
