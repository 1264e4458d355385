#pragma once
// The exchange of matrices of the rule muon (R28): bytes, messages, memory and products of every rank.

#include <cstdint>
#include <vector>

#include "common/contracts/newton_schulz.hpp"
#include "common/layout/matrix_owners.hpp"
#include "common/layout/process_grid.hpp"
#include "common/layout/tensor_blocks.hpp"
#include "common/step/matrix_tensors.hpp"

namespace zeroproof {

struct OptimizerSetup;
class Ownership;

/// A matrix of the undistributed model, and its elements on the ranks that share a state.
struct PredictedMatrix {
  /// The tensor of a TP rank.
  struct OnTpRank {
    TensorPlacement place;
    std::int64_t numel = 0;
    std::vector<bool> owned;  ///< [ranks]: whether the rank has an element of it
  };
  /// Neighbouring elements of one rank, counted in the tensor of this TP rank.
  struct Elements {
    int rank = 0;
    std::int64_t begin = 0, numel = 0;
  };

  TensorMatrix whole;
  MatrixTensor parts;
  bool split = false;              ///< TP ranks have different elements of it
  std::vector<OnTpRank> tp;        ///< [tp ranks]
  std::vector<Elements> elements;  ///< of this TP rank, in increasing order
};

struct PredictedMatrices {
  std::vector<PredictedMatrix> all;  ///< in registration order
  MatrixOwners owners = MatrixOwners::every;
  int ranks = 1;  ///< with different elements: those of comm, 1 in stage 0
  MatrixTensorParallel tensor_parallel = MatrixTensorParallel::duplicated;
  int tp_rank = 0;
  NewtonSchulzOptions newton_schulz;
};

/// Figures of one rank in one step.
struct MatrixUse {
  struct Exchange {
    std::int64_t calls = 0, messages = 0, messages_received = 0, sent_bytes = 0, received_bytes = 0;
  };
  Exchange there;  ///< directions to the ranks that compute, over comm
  Exchange back;   ///< results, over comm; nothing with MatrixOwners::every
  Exchange tp;     ///< parts of matrices that TP ranks split and do not share, over tp
  /// Of matrices that they share, over tp: columns of X and back, norms, partial folds of A, rows of A and B.
  Exchange slices, norms, folds, rows;
  std::int64_t out_bytes = 0, in_bytes = 0, gathered_bytes = 0;  ///< message buffers
  std::int64_t whole_bytes =
      0;  ///< the largest batch of whole matrices; of shared ones this TP rank's elements
  std::int64_t work_bytes =
      0;                      ///< values of Newton-Schulz, and of shared matrices the columns of X
  std::int64_t matrices = 0;  ///< that this rank orthogonalises
  double products = 0;        ///< multiplications of Newton-Schulz, with an addition each
};

/// Elements that production brings together at once, unless one matrix is larger.
inline constexpr std::int64_t matrix_batch_numel = std::int64_t{1} << 24;

/// [matrices.ranks].
std::vector<MatrixUse> predict_matrices(const PredictedMatrices& matrices);

/// Multiplications of `iterations` of Newton-Schulz: X X^T, A A and B X for every part.
double newton_schulz_products(const PredictedMatrix& matrix, int iterations);

/// Sets elements and the owned ranks of this TP rank. begin: of the tensor in the numbering of the TP rank; null
/// ownership: rank 0 has everything.
void set_elements(PredictedMatrix& matrix, int tp_rank, int ranks, std::int64_t begin,
                  const Ownership* ownership);

/// The matrices of a setup of the rule muon. Collective over tp.
PredictedMatrices predicted_matrices(const OptimizerSetup& setup);

}  // namespace zeroproof
