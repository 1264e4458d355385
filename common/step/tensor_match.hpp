#pragma once
// Matching of tensors with a configuration's rule.

#include <string>
#include <vector>

#include "common/layout/flat_layout.hpp"

namespace zeroproof {

/// match: globs (* matches any characters, none included, ? matches one); at least one must match
/// the whole name.
/// vectors: tensors of at most one dimension belong as well.
bool matches_tensor(const std::vector<std::string>& match, bool vectors, const TensorSlot& tensor);

}  // namespace zeroproof
