#include "reference/gradients/tree_stack.hpp"

#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "reference/buffers.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

TreeStack::TreeStack(std::int64_t numel, std::vector<Piece> pieces)
    : numel_(numel), pieces_(std::move(pieces)) {}

void TreeStack::push(const TreeNode& node, std::vector<float> values) {
  ZP_CHECK(static_cast<std::int64_t>(values.size()) == numel_, ErrorCode::invalid_argument,
           "a gradient node has " + std::to_string(values.size()) + " elements, not " +
               std::to_string(numel_),
           "all nodes of a stack cover the same elements", "push views of one length");
  ZP_CHECK(
      entries_.empty() || entries_.back().node.first_micro_batch() < node.first_micro_batch(),
      ErrorCode::invalid_argument,
      "micro-batch " + std::to_string(node.first_micro_batch()) + " was pushed after a later one",
      "the order determines which nodes combine (R11)", "push in increasing order");
  entries_.push_back({node, std::move(values)});

  while (entries_.size() >= 2) {
    Entry& below = entries_[entries_.size() - 2];
    const Entry& top = entries_.back();
    const auto [level, k] = top.node;
    if (k % 2 == 0 || below.node != TreeNode{level, k - 1}) break;
    add(below.values, top.values);
    below.node = {level + 1, (k - 1) / 2};
    entries_.pop_back();
  }
}

std::vector<float> TreeStack::fold() {
  ZP_CHECK(
      !entries_.empty(), ErrorCode::internal, "the gradient stack is empty at the end of a step",
      "every step has a micro-batch, and the owner gets all of them", "report this as a defect");
  while (entries_.size() >= 2) {
    add(entries_[entries_.size() - 2].values, entries_.back().values);
    entries_.pop_back();
  }
  std::vector<float> sum = std::move(entries_.back().values);
  entries_.pop_back();
  return sum;
}

void TreeStack::add(std::vector<float>& below, const std::vector<float>& top) const {
  for (const Piece& piece : pieces_)
    add_nodes({}, at(below, piece), at(top, piece), at(below, piece));
}

}  // namespace zeroproof::reference
