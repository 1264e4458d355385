#pragma once
// Nodes of the tree of R11, put together leaf by leaf.

#include <cstdint>
#include <utility>
#include <vector>

namespace zeroproof::tests {

/// A stack of nodes of the tree as (level, index).
class ListedStack {
 public:
  /// How many entries the leaf is combined with.
  std::int64_t push(std::int64_t leaf) {
    std::pair<int, std::int64_t> top{0, leaf};
    std::int64_t combined = 0;
    for (; top.second % 2 == 1 && !nodes_.empty() &&
           nodes_.back() == std::pair(top.first, top.second - 1);
         ++combined) {
      nodes_.pop_back();
      top = {top.first + 1, top.second / 2};
    }
    nodes_.push_back(top);
    return combined;
  }
  std::int64_t size() const { return static_cast<std::int64_t>(nodes_.size()); }

  /// Bytes of one element of all nodes, leaves in their own type.
  std::int64_t bytes(std::int64_t leaf_bytes) const {
    std::int64_t sum = 0;
    for (const auto& [level, index] : nodes_) sum += level == 0 ? leaf_bytes : 4;
    return sum;
  }

 private:
  std::vector<std::pair<int, std::int64_t>> nodes_;
};

inline ListedStack stack_of(const std::vector<std::int64_t>& leaves) {
  ListedStack stack;
  for (const std::int64_t leaf : leaves) stack.push(leaf);
  return stack;
}

}  // namespace zeroproof::tests
