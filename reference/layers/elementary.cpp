#include "reference/blocks.hpp"
#include "reference/checks.hpp"
#include "reference/layers/scalar_math.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {

// [Fusion:exp]
void elementary_exp(const Exec&, Span<const float> x, Span<float> y) {
  check_same_numel("elementary_exp", "x", x.size(), "y", y.size());
  as_array(y) = as_array(x).unaryExpr(&scalar_math::exp_f32);
}

// [Fusion:tanh]
void elementary_tanh(const Exec&, Span<const float> x, Span<float> y) {
  check_same_numel("elementary_tanh", "x", x.size(), "y", y.size());
  as_array(y) = as_array(x).unaryExpr(&scalar_math::tanh_f32);
}

// [Fusion:sigmoid]
void elementary_sigmoid(const Exec&, Span<const float> x, Span<float> y) {
  check_same_numel("elementary_sigmoid", "x", x.size(), "y", y.size());
  as_array(y) = as_array(x).unaryExpr(&scalar_math::sigmoid_f32);
}

// [Fusion:erf]
void elementary_erf(const Exec&, Span<const float> x, Span<float> y) {
  check_same_numel("elementary_erf", "x", x.size(), "y", y.size());
  as_array(y) = as_array(x).unaryExpr(&scalar_math::erf_f32);
}

// [Fusion:log]
void elementary_log(const Exec&, Span<const float> x, Span<float> y) {
  check_same_numel("elementary_log", "x", x.size(), "y", y.size());
  as_array(y) = as_array(x).unaryExpr(&scalar_math::log_f32);
}

}  // namespace zeroproof::reference
