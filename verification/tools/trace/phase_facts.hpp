#pragma once
// The contract's statements about a phase: its rules, its formulas, and the buffers it reads.

#include <string>
#include <vector>

#include "common/contracts/update_rule.hpp"
#include "common/step/phase.hpp"

namespace zeroproof::verification {

/// Numbers of the rules of common/CONTRACT.md that a phase follows.
std::vector<std::string> rules_of(Phase phase, UpdateRule rule, DType param_dtype);

/// Its operations, one rounding each, as R5, R6, R8, R11, R12 and R24 write them; of the update
/// those of the rule alone.
std::vector<std::string> formulas_of(Phase phase, UpdateRule rule, DType param_dtype);

/// Whether a phase reads a buffer, or overwrites data in it that is still needed.
bool is_input(Phase phase, BufferId id);

}  // namespace zeroproof::verification
