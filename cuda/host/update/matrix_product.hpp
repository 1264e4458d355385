#pragma once
// Products of R27 with an operation on every element of the result.

#include <cstddef>
#include <memory>

#include "common/base/exec.hpp"
#include "cuda/host/simd/matrix_kernels.hpp"

namespace zeroproof::cuda::host {

/// Whether rows * columns is numel, for any extents >= 0: the product may be too large for an integer.
constexpr bool has_numel(std::int64_t rows, std::int64_t columns, std::size_t numel) {
  const auto r = static_cast<std::size_t>(rows);
  return rows == 0 ? numel == 0 : numel % r == 0 && numel / r == static_cast<std::size_t>(columns);
}

/// Multiplies matrices with scratch memory that later products use again.
class MatrixMultiplier {
 public:
  explicit MatrixMultiplier(const Exec& exec) : exec_(exec), kernels_(matrix_kernels(exec.isa)) {}

  /// product = end(left right^T), [left.rows, right.rows].
  ///
  /// rounds: factors are cast to bf16 first. symmetric: left and right have the same elements, and the addend, if there
  /// is one, is symmetric. product overlaps no operand.
  void multiply(const MatrixFactor& left, const MatrixFactor& right, std::int64_t inner,
                bool rounds, bool symmetric, const ProductEnd& end, float* product);

 private:
  /// Memory that only grows and is not initialised.
  struct Scratch {
    std::unique_ptr<float[]> memory;
    std::int64_t numel = 0;

    float* of(std::int64_t wanted);
  };

  struct Panels {
    const float* left;
    const float* right;
  };

  Panels pack(const MatrixFactor& left, const MatrixFactor& right, std::int64_t inner, bool rounds);

  const Exec& exec_;
  const MatrixKernels& kernels_;
  Scratch panels_, partials_;
};

}  // namespace zeroproof::cuda::host
