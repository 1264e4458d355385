#pragma once
// Groups failures with one cause: an error of one kernel appears under many fills and instruction
// sets.

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// Results with one cause, as far as known: the same suite, group and status, and the same buffer
/// (or, without one, the same reason); a training run is always separate. In order of arrival;
/// never empty.
using FailureBlock = std::vector<const Result*>;

/// The blocks of all results that neither passed nor are skipped or mistrusted.
std::vector<FailureBlock> failure_blocks(const std::vector<Result>& results);

/// The other cases of a block, as indented lines: sides, each with the remaining parts of the ids.
/// "" if there are none.
std::string repeat_lines(const FailureBlock& block);

}  // namespace zeroproof::verification
