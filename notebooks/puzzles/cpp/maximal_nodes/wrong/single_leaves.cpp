// caught: phase reduce  rank 0  buffer nodes | block [5, 11) | element   [1] | got (0, 6)  want (1, 3)

#include "common/base/error.hpp"
#include "common/contracts/grad_sum.hpp"

namespace zeroproof::mine {

std::vector<TreeNode> maximal_nodes(std::int64_t first, std::int64_t last) {
  ZP_CHECK(0 <= first && first <= last, ErrorCode::invalid_argument, "these are no micro-batches",
           "a rank holds a block of them", "pass 0 <= first <= last");
  std::vector<TreeNode> nodes;
  for (; first < last && nodes.size() < 1000; ++first) nodes.push_back({0, first});
  return nodes;
}

}  // namespace zeroproof::mine
