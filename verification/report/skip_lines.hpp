#pragma once

#include <string>
#include <vector>

#include "verification/cases/result.hpp"

namespace zeroproof::verification {

/// "step 4 skipped: 2 of 37 tensors are not finite: a.weight 3 of 2,304, b.bias 1 of 48": the
/// tensors that fit into `columns`, at least one, and the number of the others. If G is finite, its
/// largest magnitude.
std::string describe(const SkippedStep& skip, std::size_t columns);

/// The skipped steps of some cases of one workload, recipe and dtype, a line for each, `most` of
/// them at most. Identical lines of passing cases appear once.
std::string skip_lines(const std::vector<const Result*>& cases, std::size_t most);

}  // namespace zeroproof::verification
