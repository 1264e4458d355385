#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

bool unscale(const Exec&, float inv_scale, Span<const float> grad_sum, Span<float> unscaled_grad) {
  check_same_numel("unscale", "grad_sum", grad_sum.size(), "unscaled_grad", unscaled_grad.size());
  as_array(unscaled_grad) = as_array(grad_sum) * inv_scale;

  // [MP:inverse]. Judged after the product: a finite G may overflow when the loss scale is below 1, and NaN
  // stays NaN.
  // This is a reduction of truth values, which has no order to get wrong (R14).
  return !as_array(unscaled_grad).isFinite().all();
}

}  // namespace zeroproof::reference
