#include <cmath>
#include <limits>

#include "common/base/error.hpp"
#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

float clip_coef(double grad_norm, std::optional<double> max_norm) {
  ZP_CHECK(!max_norm || (std::isfinite(*max_norm) && *max_norm >= 0), ErrorCode::invalid_argument,
           "max_norm is " + text(*max_norm), "it bounds the norm of the gradient",
           "use a finite value of 0 or more, 0 for no clipping");
  if (!max_norm || *max_norm == 0) return 1.0F;
  if (std::isnan(grad_norm)) return std::numeric_limits<float>::quiet_NaN();

  const double s = grad_norm + 1e-6;  // [Clip:coef]
  const double q = *max_norm / s;
  return static_cast<float>(q < 1 ? q : 1);  // a written comparison, not std::min (R4)
}

void clip(const Exec&, float clip_coef, Span<const float> unscaled_grad, Span<float> grad) {
  check_same_numel("clip", "unscaled_grad", unscaled_grad.size(), "grad", grad.size());
  as_array(grad) = as_array(unscaled_grad) * clip_coef;
}

void clip_value(const Exec&, float clip_value, Span<float> grad) {
  const float c = clip_value;
  ZP_CHECK(std::isfinite(c) && c > 0, ErrorCode::invalid_argument, "clip_value is " + text(c),
           "it bounds every element of the gradient", "use a finite value above 0");
  MutableArray g = as_array(grad);
  g = (g > c).select(c, (g < -c).select(-c, g));  // [Clip:value]: a NaN passes both (R4)
}

}  // namespace zeroproof::reference
