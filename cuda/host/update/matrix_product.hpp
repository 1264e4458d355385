#pragma once
// Products of R27 with an operation on every element of the result.

#include <cstddef>

#include "common/base/exec.hpp"
#include "common/base/guarded_buffer.hpp"
#include "common/contracts/matrix_product.hpp"
#include "cuda/host/simd/matrix_kernels.hpp"

namespace zeroproof::cuda::host {

/// Whether rows * columns is numel, for any extents >= 0: the product may be too large for an integer.
constexpr bool has_numel(std::int64_t rows, std::int64_t columns, std::size_t numel) {
  const auto r = static_cast<std::size_t>(rows);
  return rows == 0 ? numel == 0 : numel % r == 0 && numel / r == static_cast<std::size_t>(columns);
}

/// Elements that the packed factors of a product need at most, with any instruction set: a panel
/// has up to 32 lanes.
constexpr std::int64_t panels_numel(std::int64_t rows, std::int64_t columns, std::int64_t inner) {
  return (rows + columns + 62) * inner;
}

/// Multiplies matrices with scratch memory that later products use again.
class MatrixMultiplier {
 public:
  /// panels: memory for the packed factors of every product, [panels_numel()]; null: allocated here.
  explicit MatrixMultiplier(const Exec& exec, float* panels = nullptr)
      : exec_(exec), kernels_(matrix_kernels(exec.isa)), given_panels_(panels) {}

  /// product = end(left right^T), [left.rows, right.rows], or the fold of some blocks of its terms:
  /// the factors begin with the first of these.
  ///
  /// symmetric: left and right have the same elements, and the addend, if there
  /// is one, is symmetric. Factors are copied first, so product may be a factor, and it may be the addend.
  void multiply(const MatrixFactor& left, const MatrixFactor& right, const InnerBlocks& inner,
                MatrixFactors factors, bool symmetric, const ProductEnd& end, float* product);

 private:
  /// The panels of block.form. Returns whether that form has the bits of R27.
  bool pack(const MatrixFactor& left, const MatrixFactor& right, ProductBlock& block);

  const Exec& exec_;
  const MatrixKernels& kernels_;
  float* const given_panels_;
  GuardedBuffer panels_, partials_;
};

}  // namespace zeroproof::cuda::host
