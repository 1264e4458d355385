// maximal_nodes: from the left, the largest node that begins here and ends inside.

#include "common/base/error.hpp"
#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

std::vector<TreeNode> maximal_nodes(std::int64_t first, std::int64_t last) {
  ZP_CHECK(0 <= first && first <= last, ErrorCode::invalid_argument, "invalid block",
           "it must contain micro-batches", "pass 0 <= first <= last");
  std::vector<TreeNode> nodes;
  while (first < last) {
    int level = 0;
    while (first % (std::int64_t{2} << level) == 0 && first + (std::int64_t{2} << level) <= last)
      ++level;
    nodes.push_back({level, first >> level});
    first += std::int64_t{1} << level;
  }
  return nodes;
}

}  // namespace zeroproof::mine
