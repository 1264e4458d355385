#pragma once
// Newton-Schulz (R28) on the current stream, without a wait or an allocation, for steps. Needs no
// CUDA.

#include <cstdint>

#include "common/contracts/newton_schulz.hpp"
#include "cuda/device/kernels/base/step_ends.cuh"

namespace zeroproof::cuda::device {

/// The norm of a matrix.
struct MatrixNorm {
  std::uint64_t sums[23];  ///< limbs and counts of R12
  double norm;             ///< N of R28
};

/// Device memory for the intermediate values of a matrix; matrices may use it one after the other.
struct NewtonSchulzMemory {
  float* values = nullptr;  ///< [newton_schulz_numel()]
  MatrixNorm* norm = nullptr;
};

/// Elements of such memory.
constexpr std::int64_t newton_schulz_numel(std::int64_t rows, std::int64_t columns) {
  const std::int64_t shorter = rows < columns ? rows : columns;
  return 2 * rows * columns + 2 * shorter * shorter;
}

/// Enqueues Newton-Schulz of a matrix with elements. matrix, orthogonal: [rows, columns] in device
/// memory, row after row; they may be the same.
///
/// Errors  invalid_argument for options that R28 does not have.
void enqueue_newton_schulz(const NewtonSchulzOptions& options, std::int64_t rows,
                           std::int64_t columns, const float* matrix, float* orthogonal,
                           const NewtonSchulzMemory& memory, const StepEnds& ends);

}  // namespace zeroproof::cuda::device
