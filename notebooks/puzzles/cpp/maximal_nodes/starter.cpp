// The nodes that a rank with leaves [first, last) sends, in C++ (lesson 2; rule R11).

#include "common/base/error.hpp"
#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

/// The largest nodes of the tree inside [first, last), from left to right. Node (l, k) covers the
/// leaves k * 2^l up to (k + 1) * 2^l - 1. Blocks may have 2^40 leaves.
///
/// Errors   ErrorCode::invalid_argument (use ZP_CHECK of common/base/error.hpp) if first < 0 or
///          last < first.
std::vector<TreeNode> maximal_nodes(std::int64_t first, std::int64_t last) {
  // TODO: from the left, the largest node that begins here and ends inside
  return {};
}

}  // namespace zeroproof::mine
