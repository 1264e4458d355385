// The sum of the gradients of M micro-batches in C++, by the tree, in every bit (lesson 2; rule R11).

#include "common/base/error.hpp"
#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

/// sum[i]: node (l, k) of the tree is (l-1, 2k) + (l-1, 2k+1), one fp32 addition; if the right one
/// covers no leaf, it is the left one, bit for bit. A leaf is node (0, j). Leaves must not be
/// modified.
///
/// Errors   ErrorCode::invalid_argument (use ZP_CHECK of common/base/error.hpp) if there is no
///          leaf.
void grad_sum(const Exec&, Span<const Span<const float>> leaves, Span<float> sum) {
  // TODO: the check for leaves; neighbours first, then the sums of neighbours
}

}  // namespace zeroproof::mine
