#include <string>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/gradients/tree_stack.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

/// Elements [begin, begin + count) of the canonical tree over all leaves [Sum:tree]: R11's
/// recursion as written.
struct Tree {
  Span<const Span<const float>> leaves;
  std::int64_t begin;
  std::int64_t count;

  bool covers_nothing(int level, std::int64_t index) const {
    return index << level >= numel(leaves);
  }

  Block node(int level, std::int64_t index) const {
    if (level == 0) return as_array(part(leaves[index], begin, count));
    const Block left = node(level - 1, 2 * index);
    if (covers_nothing(level - 1, 2 * index + 1)) return left;  // no addition, so -0 stays -0
    const Block right = node(level - 1, 2 * index + 1);
    return left + right;
  }
};

/// Level of the lowest node with index 0 that covers all leaves.
int root_level(std::int64_t num_leaves) {
  int level = 0;
  while (std::int64_t{1} << level < num_leaves) ++level;
  return level;
}

}  // namespace

void add_nodes(const Exec&, Span<const float> left, Span<const float> right, Span<float> sum) {
  check_same_numel("add_nodes", "left", left.size(), "right", right.size());
  check_same_numel("add_nodes", "left", left.size(), "sum", sum.size());
  as_array(sum) = as_array(left) + as_array(right);
}

std::vector<TreeNode> maximal_nodes(std::int64_t first, std::int64_t last) {
  ZP_CHECK(0 <= first && first <= last, ErrorCode::invalid_argument,
           "micro-batches " + std::to_string(first) + " up to " + std::to_string(last) +
               " are not a block",
           "a rank has consecutive micro-batches, numbered from 0", "pass 0 <= first <= last");
  // Pushes leaves without elements on the stack; the nodes left are the answer.
  TreeStack stack(0, {});
  for (std::int64_t j = first; j < last; ++j) stack.push({0, j}, {});
  std::vector<TreeNode> nodes;
  for (const TreeStack::Entry& entry : stack.entries()) nodes.push_back(entry.node);
  return nodes;
}

void grad_sum(const Exec&, Span<const Span<const float>> leaves, Span<float> sum) {
  ZP_CHECK(!leaves.empty(), ErrorCode::invalid_argument, "grad_sum: there is no leaf",
           "a step has at least one micro-batch", "pass M >= 1 leaves");
  for (const Span<const float> leaf : leaves) {
    check_same_numel("grad_sum", "a leaf", leaf.size(), "sum", sum.size());
  }
  const int root = root_level(numel(leaves));
  for_each_block(numel(sum), [&](std::int64_t begin, std::int64_t count) {
    as_array(part(sum, begin, count)) = Tree{leaves, begin, count}.node(root, 0);
  });
}

}  // namespace zeroproof::reference
