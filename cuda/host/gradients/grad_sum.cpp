#include <algorithm>
#include <bit>

#include "cuda/host/base/check.hpp"
#include "cuda/host/base/parallel_blocks.hpp"
#include "cuda/host/fold_plan.hpp"
#include "cuda/host/gradients/tree_stack.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/host/simd/kernels.hpp"

namespace zeroproof::cuda::host {

void add_nodes(const Exec& exec, Span<const float> left, Span<const float> right, Span<float> sum) {
  require_same_numel("add_nodes", "left", left.size(), "right", right.size());
  require_same_numel("add_nodes", "left", left.size(), "sum", sum.size());
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_blocks(exec, numel(sum), [&](std::int64_t begin, std::int64_t end) {
    kernels.add(left.data() + begin, right.data() + begin, sum.data() + begin, end - begin);
  });
}

std::vector<TreeNode> maximal_nodes(std::int64_t first, std::int64_t last) {
  ZP_CHECK(
      first >= 0 && first <= last, ErrorCode::invalid_argument,
      "micro-batches " + std::to_string(first) + " to " + std::to_string(last) + " are not a block",
      "a rank holds consecutive micro-batches", "use 0 <= first <= last");
  // Greedy: the largest aligned power of two that starts here and ends inside the block.
  std::vector<TreeNode> nodes;
  while (first < last) {
    const int fits = std::bit_width(static_cast<std::uint64_t>(last - first)) - 1;
    const int aligned = first == 0 ? fits : std::countr_zero(static_cast<std::uint64_t>(first));
    const int level = std::min(fits, aligned);
    nodes.push_back({level, first >> level});
    first += std::int64_t{1} << level;
  }
  return nodes;
}

void grad_sum(const Exec& exec, Span<const Span<const float>> leaves, Span<float> sum) {
  ZP_CHECK(!leaves.empty(), ErrorCode::invalid_argument, "grad_sum has no leaf",
           "an empty sum is not a gradient", "pass at least one micro-batch");
  for (const Span<const float> leaf : leaves) {
    require_same_numel("grad_sum", "a leaf", leaf.size(), "sum", sum.size());
  }
  TreeStack<std::vector<float>> stack([&](std::vector<float>& below, std::vector<float>& top) {
    add_nodes(exec, below, top, below);
  });
  for (std::size_t j = 0; j < leaves.size(); ++j) {
    stack.push({0, static_cast<std::int64_t>(j)},
               std::vector<float>(leaves[j].begin(), leaves[j].end()));
  }
  const std::vector<float> total = stack.fold();
  std::copy(total.begin(), total.end(), sum.begin());
}

void fused_fold(const Exec& exec, const FoldPlan& plan, Span<const GradStretch> operands,
                Span<float> sum, bool streamed) {
  require_same_numel("fused_fold", "nodes", plan.num_nodes(), "operands", operands.size());
  const Fold fold = plan.over(operands);
  const SimdKernels& kernels = simd_kernels(exec.isa);
  parallel_blocks(exec, numel(sum), [&](std::int64_t begin, std::int64_t end) {
    kernels.fold(fold, begin, sum.data() + begin, end - begin, streamed);
  });
}

}  // namespace zeroproof::cuda::host
