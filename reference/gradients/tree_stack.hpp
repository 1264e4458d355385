#pragma once
// The routine of R11 that sums leaves in any distribution over ranks, in the order of the one tree.

#include <vector>

#include "common/contracts/grad_sum.hpp"
#include "common/layout/flat_layout.hpp"

namespace zeroproof::reference {

/// Nodes of the canonical tree that cannot be combined further yet, earlier micro-batches first.
class TreeStack {
 public:
  struct Entry {
    TreeNode node;
    std::vector<float> values;  // [numel]; NaN outside the pieces
  };

  /// numel: elements of every node. pieces: where arithmetic is allowed, by local index; the rest
  /// is padding (R13).
  TreeStack(std::int64_t numel, std::vector<Piece> pieces);

  /// Adds a node, and combines nodes as the tree does; nodes arrive in increasing order of their
  /// first micro-batch.
  /// Errors: invalid_argument if values does not have numel elements or an earlier micro-batch
  /// arrives late.
  void push(const TreeNode& node, std::vector<float> values);

  /// The sum over everything pushed, from last to first; the stack is empty afterwards.
  std::vector<float> fold();

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  /// below + top, stored in below.
  void add(std::vector<float>& below, const std::vector<float>& top) const;

  std::int64_t numel_;
  std::vector<Piece> pieces_;
  std::vector<Entry> entries_;
};

}  // namespace zeroproof::reference
