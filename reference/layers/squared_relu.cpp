#include "reference/layers/activation_rows.hpp"
#include "reference/layers/eight_blocks.hpp"
#include "reference/operations.hpp"

namespace zeroproof::reference {
namespace {

ActivationRows check_squared_relu(const char* operation, std::int64_t columns, Span<const float> x,
                                  Span<const float> weight) {
  const ActivationRows shape = check_rows(operation, columns, x.size());
  check_optional_elements(operation, "weight", weight.size(), shape.rows);
  return shape;
}

/// A NaN stays a NaN.
Block relu(ConstArray x) { return (x <= 0.0F).select(0.0F, x); }

}  // namespace

// [Fusion:squared_relu]

void squared_relu(const Exec&, std::int64_t columns, Span<const float> x, Span<const float> weight,
                  Span<float> y) {
  const ActivationRows shape = check_squared_relu("squared_relu", columns, x, weight);
  check_same_numel("squared_relu", "x", x.size(), "y", y.size());
  for_each_stretch(shape, [&](const Stretch& part) {
    const Block m = relu(part.of(x));
    const Block f = m * m;
    part.of(y) = weighted(f, weight, part.row);
  });
}

void squared_relu_backward(const Exec&, std::int64_t columns, Span<const float> dy,
                           Span<const float> x, Span<const float> weight, Span<float> dx,
                           Span<float> d_weight) {
  const ActivationRows shape = check_squared_relu("squared_relu_backward", columns, x, weight);
  check_same_numel("squared_relu_backward", "x", x.size(), "dy", dy.size());
  check_same_numel("squared_relu_backward", "x", x.size(), "dx", dx.size());
  check_same_numel("squared_relu_backward", "weight", weight.size(), "d_weight", d_weight.size());
  for_each_stretch(shape, [&](const Stretch& part) {
    const Block m = relu(part.of(x));
    const Block g = weighted(part.of(dy), weight, part.row);
    const Block a = 2.0F * m;
    part.of(dx) = a * g;
  });
  for (std::int64_t row = 0; row < numel(d_weight); ++row) {
    const ConstArray of_row = as_array(part(x, row * columns, columns));
    const ConstArray dy_of_row = as_array(part(dy, row * columns, columns));
    d_weight[row] = sum_in_blocks(columns, [&](std::int64_t j) {
      const float m = of_row[j] <= 0.0F ? 0.0F : of_row[j];
      const float f = m * m;
      return dy_of_row[j] * f;
    });
  }
}

}  // namespace zeroproof::reference
