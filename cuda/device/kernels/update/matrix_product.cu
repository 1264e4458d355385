#include "cuda/device/kernels/update/matrix_product.cuh"

#include "cuda/device/kernels/update/matrix_checks.hpp"
#include "cuda/device/operations.hpp"

namespace zeroproof::cuda::device {

void matrix_product(const Exec&, MatrixFactors factors, std::int64_t rows, std::int64_t columns,
                    std::int64_t inner, Span<const float> left, Span<const float> right,
                    Span<float> product) {
  require_matrix("left", left, rows, inner);
  require_matrix("right", right, columns, inner);
  require_matrix("product", product, rows, columns);
  enqueue_product({.rows = rows,
                   .columns = columns,
                   .inner = inner,
                   .left = left.data(),
                   .right = right.data(),
                   .product = product.data(),
                   .rounds_factors = factors == MatrixFactors::bf16},
                  true);
}

}  // namespace zeroproof::cuda::device
