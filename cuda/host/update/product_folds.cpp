#include "cuda/host/update/product_folds.hpp"

#include <vector>

#include "cuda/host/fold_plan.hpp"

namespace zeroproof::cuda::host {

void fold_products(const Exec& exec, Span<const TreeNode> nodes, Span<const float* const> folds,
                   Span<float> product) {
  std::vector<GradStretch> operands;
  for (const float* const fold : folds) operands.push_back({fold, DType::fp32});
  fused_fold(exec, FoldPlan({nodes.begin(), nodes.end()}), operands, product, false);
}

}  // namespace zeroproof::cuda::host
