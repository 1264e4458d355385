#pragma once
// The canonical tree of R11 as a stack of partial sums.

#include <functional>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/contracts/grad_sum.hpp"

namespace zeroproof::cuda::host {

/// Values is any movable type that represents the values of one node (a buffer, a pointer).
/// `add(below, top)` makes below the sum below + top, elementwise.
template <class Values>
class TreeStack {
 public:
  using Add = std::function<void(Values& below, Values& top)>;
  struct Entry {
    TreeNode node;
    Values values;
  };

  explicit TreeStack(Add add) : add_(std::move(add)) {}

  /// Nodes must arrive in increasing order of their first micro-batch.
  void push(TreeNode node, Values values) {
    while (!entries_.empty() && node.index % 2 == 1 &&
           entries_.back().node == TreeNode{node.level, node.index - 1}) {
      Values below = std::move(entries_.back().values);
      entries_.pop_back();
      add_(below, values);
      values = std::move(below);
      node = {node.level + 1, node.index / 2};
    }
    entries_.push_back({node, std::move(values)});
  }

  /// The nodes that could not be merged yet, in increasing order of their first micro-batch.
  std::vector<Entry>& entries() { return entries_; }

  /// Adds the remaining nodes, from last to first, and empties the stack. There must be at least
  /// one node.
  Values fold() {
    ZP_CHECK(!entries_.empty(), ErrorCode::internal, "a gradient sum has no leaves",
             "a step has at least one micro-batch", "report this with the command line");
    Values sum = std::move(entries_.back().values);
    for (std::size_t i = entries_.size() - 1; i-- > 0;) {
      add_(entries_[i].values, sum);
      sum = std::move(entries_[i].values);
    }
    entries_.clear();
    return sum;
  }

 private:
  Add add_;
  std::vector<Entry> entries_;
};

}  // namespace zeroproof::cuda::host
