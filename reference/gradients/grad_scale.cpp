#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

bool unscale(const Exec&, float inv_scale, Span<const float> grad_sum, Span<float> unscaled_grad) {
  check_same_numel("unscale", "grad_sum", grad_sum.size(), "unscaled_grad", unscaled_grad.size());
  as_array(unscaled_grad) = as_array(grad_sum) * inv_scale;

  // [MP:inverse]. Checked after the product: a finite G may overflow when the loss scale is below
  // 1, and NaN stays NaN. A reduction of truth values is the same in every order (R14).
  return !as_array(unscaled_grad).isFinite().all();
}

}  // namespace zeroproof::reference
