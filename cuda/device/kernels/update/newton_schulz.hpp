#pragma once
// Newton-Schulz (R28) on the current stream, without a wait or an allocation, for steps. Needs no CUDA.

#include <cstdint>

#include "common/contracts/newton_schulz.hpp"
#include "cuda/device/kernels/base/step_ends.cuh"

namespace zeroproof::cuda::device {

/// The elements of a matrix that belong to one of its parts: rows `first` to `first + width` of every period of rows,
/// or columns.
struct MatrixPart {
  std::int64_t rows = 0, columns = 0;  ///< of the part
  std::int64_t row_stride = 0;         ///< columns of the matrix
  std::int64_t first = 0, width = 1, period = 1;
  bool by_columns = false;
};

/// A whole matrix, which has elements.
constexpr MatrixPart whole_matrix(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, columns, 0, rows, rows, false};
}

/// The norm of a part.
struct PartNorm {
  std::uint64_t sums[23];  ///< limbs and counts of R12
  double norm;             ///< N of R28
};

/// Device memory for the intermediate values of a part; parts may use it one after the other.
struct NewtonSchulzMemory {
  float* values = nullptr;  ///< [newton_schulz_numel()]
  PartNorm* norm = nullptr;
};

/// Elements of such memory for a part.
constexpr std::int64_t newton_schulz_numel(std::int64_t rows, std::int64_t columns) {
  const std::int64_t shorter = rows < columns ? rows : columns;
  return 2 * rows * columns + 2 * shorter * shorter;
}

/// Enqueues Newton-Schulz of a part with elements. matrix, orthogonal: of the whole matrix, in device memory; they may
/// be the same. Elements outside of the part are neither read nor written.
///
/// Errors  invalid_argument for options that R28 does not have.
void enqueue_newton_schulz(const NewtonSchulzOptions& options, const MatrixPart& part,
                           const float* matrix, float* orthogonal, const NewtonSchulzMemory& memory,
                           const StepEnds& ends = {});

}  // namespace zeroproof::cuda::device
