#include <string>

#include "common/base/error.hpp"
#include "common/base/float_formats.hpp"
#include "reference/layers/row_reductions.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

float number(float x) { return x; }
float number(bf16 x) { return to_float(x); }

// [Fusion:weight_grad]
template <class T>
void accumulate(const char* operation, std::int64_t tokens, std::int64_t outputs,
                std::int64_t inputs, Span<const T> dy, Span<const T> x, Span<float> weight_grad) {
  ZP_CHECK(tokens >= 0 && outputs >= 1 && inputs >= 1, ErrorCode::invalid_argument,
           std::string(operation) + ": " + std::to_string(tokens) + " tokens, " +
               std::to_string(outputs) + " outputs and " + std::to_string(inputs) + " inputs",
           "each must be at least 1", "pass the shape of the product");
  check_elements(operation, "dy", dy.size(), tokens * outputs);
  check_elements(operation, "x", x.size(), tokens * inputs);
  check_elements(operation, "weight_grad", weight_grad.size(), outputs * inputs);
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t i = 0; i < inputs; ++i) {
      const float s = sum_in_blocks(tokens, [&](std::int64_t t) {
        return number(dy[t * outputs + o]) * number(x[t * inputs + i]);
      });
      float& grad = weight_grad[o * inputs + i];
      grad = grad + s;
    }
  }
}

}  // namespace

void column_sum(const Exec&, Span<const float> x, Span<float> sums) {
  const std::int64_t columns = numel(sums);
  const std::int64_t rows = check_rows("column_sum", columns, x.size()).rows;
  sum_columns(rows, sums, [&](std::int64_t r, std::int64_t j) { return row_of(x, r, columns)[j]; });
}

void weight_grad(const Exec&, std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                 Span<const float> dy, Span<const float> x, Span<float> weight_grad) {
  accumulate("weight_grad", tokens, outputs, inputs, dy, x, weight_grad);
}

void weight_grad_bf16(const Exec&, std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                      Span<const bf16> dy, Span<const bf16> x, Span<float> weight_grad) {
  accumulate("weight_grad_bf16", tokens, outputs, inputs, dy, x, weight_grad);
}

}  // namespace zeroproof::reference
