#pragma once
// Matrix products and Newton-Schulz (R27, R28) by the reference.

#include <cstdint>
#include <vector>

#include "common/base/float_formats.hpp"
#include "reference/operations.hpp"
#include "tests/cuda/update/simple_lamb.hpp"

namespace zeroproof::tests {

using Values = std::vector<float>;

/// Cast to bf16 and widened.
inline float simple_bf16(float x) { return to_float(to_bf16(x)); }

/// X Y^T of R27; X: [rows, inner], Y: [columns, inner]. rounds: the factors to bf16.
inline Values simple_product(bool rounds, std::int64_t rows, std::int64_t columns,
                             std::int64_t inner, const Values& x, const Values& y) {
  Values product(static_cast<std::size_t>(rows * columns));
  reference::matrix_product({}, rounds ? MatrixFactors::bf16 : MatrixFactors::fp32, rows, columns,
                            inner, x, y, product);
  return product;
}

inline Values simple_newton_schulz(const NewtonSchulzOptions& options, std::int64_t rows,
                                   std::int64_t columns, const Values& e) {
  Values orthogonal(e.size());
  reference::newton_schulz({}, options, rows, columns, e, orthogonal);
  return orthogonal;
}

}  // namespace zeroproof::tests
