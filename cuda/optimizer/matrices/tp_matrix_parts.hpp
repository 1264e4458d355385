#pragma once
// The parts of matrices (R28) that the ranks of a TP rank have, as the other TP ranks need them.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/step/distributed_optimizer.hpp"

namespace zeroproof::cuda {

/// Of one TP rank. Matrices are the tensors of StepSettings::matrix_tensors that are matrices, in
/// order.
struct TpMatrixParts {
  std::vector<TensorPlacement> placement;  ///< [num_matrices]
  std::vector<std::int64_t> numel;         ///< [num_matrices] of the TP rank's tensor
  /// [num_matrices * ranks]: 1 if the rank has an element of the matrix. ranks: matrix_ranks().
  std::vector<std::uint8_t> owned;

  bool has(std::size_t matrix, int rank) const {
    return owned[matrix * (owned.size() / numel.size()) + static_cast<std::size_t>(rank)] != 0;
  }
};

/// Ranks of comm that have different elements: all of them, but one in stage 0.
int matrix_ranks(const OptimizerSetup& setup);

/// This rank as one of those.
int matrix_rank(const OptimizerSetup& setup);

/// Those of this TP rank.
TpMatrixParts matrix_parts_of(const OptimizerSetup& setup);

/// Those of all TP ranks, [tp ranks]. Collective over tp.
std::vector<TpMatrixParts> gather_matrix_parts(const OptimizerSetup& setup);

}  // namespace zeroproof::cuda
