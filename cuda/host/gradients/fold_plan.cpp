#include "cuda/host/fold_plan.hpp"

#include "common/base/error.hpp"
#include "cuda/host/gradients/tree_stack.hpp"

namespace zeroproof::cuda::host {

FoldPlan::FoldPlan(const std::vector<TreeNode>& nodes) : num_nodes_(nodes.size()) {
  ZP_CHECK(!nodes.empty(), ErrorCode::invalid_argument, "a fold has no nodes",
           "an empty sum is not a gradient", "pass the nodes of at least one micro-batch");
  std::vector<std::int64_t> free;  // scratch slots
  const auto take = [&] {
    if (free.empty()) return depth_++;
    const std::int64_t slot = free.back();
    free.pop_back();
    return slot;
  };
  TreeStack<std::int64_t> stack([&](std::int64_t& below, std::int64_t& top) {
    const std::int64_t to = below >= 0 ? below : top >= 0 ? top : take();
    additions_.push_back({below, top, to});
    if (top >= 0 && top != to) free.push_back(top);
    below = to;
  });
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    ZP_CHECK(i == 0 || nodes[i - 1].first_micro_batch() < nodes[i].first_micro_batch(),
             ErrorCode::invalid_argument,
             "gradient nodes are not in the order of their micro-batches",
             "the order decides which may be combined (R11)", "sort them");
    stack.push(nodes[i], -1 - static_cast<std::int64_t>(i));
  }
  stack.fold();
  ZP_CHECK(depth_ <= most_fold_slots, ErrorCode::internal, "a gradient sum has too many levels",
           "more than a tree over 2^63 micro-batches can have",
           "report this with the command line");
}

FoldPlan FoldPlan::one_after_another(std::size_t operands) {
  ZP_CHECK(operands > 0, ErrorCode::invalid_argument, "a fold has no operands",
           "an empty sum is not a gradient", "pass at least one");
  FoldPlan plan;
  plan.num_nodes_ = operands;
  plan.depth_ = operands > 1 ? 1 : 0;
  for (std::size_t i = 1; i < operands; ++i) {
    plan.additions_.push_back({i == 1 ? -1 : 0, -1 - static_cast<std::int64_t>(i), 0});
  }
  return plan;
}

}  // namespace zeroproof::cuda::host
