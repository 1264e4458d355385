#pragma once

#include <cstdint>
#include <vector>

#include "common/base/exec.hpp"
#include "common/base/span.hpp"

namespace zeroproof {

/// Node (level, index) of the canonical tree covers micro-batches [index * 2^level, (index + 1) * 2^level).
struct TreeNode {
  int level = 0;
  std::int64_t index = 0;

  std::int64_t first_micro_batch() const { return index << level; }
  bool operator==(const TreeNode&) const = default;
};

/// One inner node of the canonical tree: sum[i] = left[i] + right[i], the earlier micro-batches on the left.
///
/// Shapes   left, right, sum: [numel], numel >= 0; sum may be exactly left or exactly right, else no overlap.
/// Units    gradient times loss scale.
/// Exact    bitwise; one fp32 rounding [Sum:model].
/// Errors   invalid_argument if the numels differ.
/// Contract R11.
using AddNodesFn = void(const Exec&, Span<const float> left, Span<const float> right,
                        Span<float> sum);

/// The nodes left on the stack after pushing leaves first..last-1 in order: a rank with this block
/// of micro-batches sends them to the owners.
///
/// Units    micro-batch numbers in data order, 0 <= first <= last.
/// Exact    integers, in increasing first_micro_batch(). How many there can be: [ZeRO:nodes].
/// Errors   invalid_argument if first < 0 or last < first.
/// Contract R11.
using MaximalNodesFn = std::vector<TreeNode>(std::int64_t first, std::int64_t last);

/// The whole canonical tree over all micro-batches of one step.
///
/// Shapes   leaves: M spans of [numel], M >= 1; sum: [numel]; sum overlaps no leaf.
/// Exact    bitwise. M = 1 copies the leaf's bits. Distance from the true sum: [Sum:tree].
/// Errors   invalid_argument if there is no leaf or the numels differ.
/// Contract R11.
using GradSumFn = void(const Exec&, Span<const Span<const float>> leaves, Span<float> sum);

}  // namespace zeroproof
