#pragma once
// Products of R27 with an operation on every element of the result.

#include "common/base/exec.hpp"
#include "cuda/host/simd/matrix_kernels.hpp"

namespace zeroproof::cuda::host {

/// product = end(left right^T), [left.rows, right.rows].
///
/// rounds: factors are cast to bf16 first. symmetric: left and right have the same elements, and the addend, if there
/// is one, is symmetric. product overlaps no operand.
void multiply(const Exec& exec, const MatrixFactor& left, const MatrixFactor& right,
              std::int64_t inner, bool rounds, bool symmetric, const ProductEnd& end,
              float* product);

}  // namespace zeroproof::cuda::host
