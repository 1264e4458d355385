#pragma once
// What is wrong with one kernel shows under many fills and in every instruction set: people read it once.

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// Results with one cause, as far as can be told: the same suite, group and status, and the same buffer (or, without
/// one, the same reason); a training run is always alone. In the order in which they came; never empty.
using FailureBlock = std::vector<const Result*>;

/// The blocks of all results that neither passed nor are skipped or mistrusted.
std::vector<FailureBlock> failure_blocks(const std::vector<Result>& results);

/// Where a block repeats after its first case, as indented lines: sides, each with what is left of the ids. "" if it
/// does not.
std::string repeat_lines(const FailureBlock& block);

}  // namespace zeroproof::verification
