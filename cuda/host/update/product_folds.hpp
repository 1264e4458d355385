#pragma once
// Partial folds of the blocks of a product (R27), which several ranks have.

#include "common/base/exec.hpp"
#include "common/base/span.hpp"
#include "common/contracts/grad_sum.hpp"

namespace zeroproof::cuda::host {

/// product = the fold of all 8 blocks of R18.
///
/// nodes: of the tree over the blocks, in increasing order, together all of it. folds: of each, [product.size()]
/// elements. product overlaps none of them.
///
/// Errors  invalid_argument if the nodes are in another order, or not as many as the folds.
void fold_products(const Exec& exec, Span<const TreeNode> nodes, Span<const float* const> folds,
                   Span<float> product);

}  // namespace zeroproof::cuda::host
