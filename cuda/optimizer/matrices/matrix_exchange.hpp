#pragma once
// The plan that brings the elements of matrices together for Newton-Schulz, and back (R28).

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/optimizer/matrices/tp_matrix_parts.hpp"

namespace zeroproof::cuda {

/// A part of a matrix, orthogonalised by itself.
struct MatrixPart {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t begin = 0;  ///< of its first element in the memory of its matrix
};

/// A matrix of the undistributed model. In memory its parts follow one another, each row after row.
struct WholeMatrix {
  std::int64_t tensor = 0;  ///< index into FlatLayout::tensors()
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t begin = 0;  ///< global index of its first element, undistributed
  bool split = false;      ///< TP ranks have different elements of it
  /// Such ranks share the work too (MatrixTensorParallel::distributed): none has the whole matrix,
  /// and memory has the elements of this TP rank's tensor, in its order.
  bool shared = false;
  bool alike = true;        ///< its parts have the same rows and columns
  bool by_columns = false;  ///< parts are columns, not rows
  std::vector<std::int64_t>
      cut;  ///< [parts + 1]: begin of each part in a period, in rows or columns
  std::vector<MatrixPart> parts;  ///< empty: the matrix has no element
  /// Ranks of matrix_ranks() that bring the matrix together, in increasing order.
  std::vector<int> gatherers;

  std::int64_t numel() const { return rows * columns; }
};

/// Elements that follow one another in a shard buffer and in the memory of a batch.
struct MatrixRun {
  std::int64_t local_begin = 0;  ///< in the shard buffer of the rank that owns them
  std::int64_t place = 0;        ///< in the memory of the batch, on a rank that gathers the matrix
  std::int64_t numel = 0;        ///< >= 1
};

/// Matrices that are brought together at once.
struct MatrixBatch {
  std::int64_t first = 0, end = 0;  ///< indices into MatrixExchange::matrices()
  std::int64_t numel = 0;           ///< elements of its memory on this rank
  bool moves = false;               ///< some rank of comm gathers elements of another one
};

/// Elements of a batch by the rank of comm that has the others. Forward, before Newton-Schulz,
/// `away` is sent out of the shard buffer and `here` received into the memory of the batch; the way
/// back is the reverse. A message has its runs one after another, without gaps.
struct MatrixMessages {
  std::vector<std::vector<MatrixRun>> away;  ///< [ranks] of this rank's shard; place is undefined
  std::vector<std::vector<MatrixRun>> here;  ///< [ranks] of their shards; local_begin is theirs
  std::vector<MatrixRun> own;                ///< of this rank's shard, in matrices it gathers
};

/// Bytes of message buffers, as packed_exchange.hpp uses them.
struct MatrixMessageBytes {
  std::int64_t out = 0, in = 0;  ///< to and from the ranks of comm
  std::int64_t gathered = 0;     ///< of TP ranks
};

/// The exchange of one rank. With MatrixOwners::every, each rank gathers the matrices of which it,
/// or a rank with the same number of another TP rank, has an element, and nothing is sent back: a
/// rank takes its elements out of its own result. Otherwise a matrix is gathered by its owner alone
/// (on every TP rank). Matrices that TP ranks split are then completed over tp, unless they share
/// the work (tp_slices.hpp). In stage 0 nothing moves over comm.
class MatrixExchange {
 public:
  /// Elements that a rank brings together at once, unless one matrix is larger: 64 MiB of fp32.
  static constexpr std::int64_t default_batch_numel = std::int64_t{1} << 24;

  /// parts: of all TP ranks (gather_matrix_parts). Nothing is kept of the setup.
  MatrixExchange(const OptimizerSetup& setup, const std::vector<TpMatrixParts>& parts,
                 std::int64_t batch_numel = default_batch_numel);

  /// Ranks of comm among which elements move; this one.
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  /// Whether elements of O are sent back to the ranks that own them.
  bool returns() const { return returns_; }

  /// In registration order.
  const std::vector<WholeMatrix>& matrices() const { return matrices_; }
  /// Index of a tensor in matrices(), or -1.
  std::int64_t matrix_of(std::int64_t tensor) const { return of_tensor_[tensor]; }
  /// Together they have every matrix once. The same matrices on every rank of the step; `moves` is
  /// the same on all ranks of comm.
  const std::vector<MatrixBatch>& batches() const { return batches_; }
  /// Elements of the largest memory of a batch on this rank.
  std::int64_t most_numel() const;

  /// Whether this rank brings the matrix together; whether it needs its result.
  bool gathers(std::int64_t matrix) const;
  bool computes(std::int64_t matrix) const;
  /// Begin of a matrix that this rank gathers, in the memory of its batch.
  std::int64_t begin_of(std::int64_t matrix) const { return begin_[matrix]; }

  /// Whether a tensor is updated in this step; the others move nothing.
  using Updated = std::function<bool(std::int64_t tensor)>;

  MatrixMessages messages(const MatrixBatch& batch, const Updated& updated) const;

  /// Of the largest batches, if every matrix is updated; no step needs more.
  MatrixMessageBytes message_bytes() const;

  /// Elements of a matrix that follow one another in its memory.
  struct Stretch {
    std::int64_t place = 0, numel = 0;
    std::size_t part = 0;
  };
  /// Calls body(stretch) for elements of a TP rank's tensor; their places are in the whole matrix.
  void for_stretches(std::int64_t matrix, int tp_rank, std::int64_t tensor_begin,
                     std::int64_t numel, const std::function<void(const Stretch&)>& body) const;
  /// Elements of a matrix in the tensor of a TP rank.
  std::int64_t numel_of(std::int64_t matrix, int tp_rank) const { return numel_[tp_rank][matrix]; }

  /// Elements of a TP rank in the matrices of a batch that TP ranks split and do not share, and this
  /// rank gathers; local_begin is undefined. The same matrices on all TP ranks.
  std::vector<MatrixRun> tp_runs(const MatrixBatch& batch, const Updated& updated,
                                 int tp_rank) const;

  /// Calls body(range, part) for ranges of a piece of a matrix that are in one part, in order; for
  /// all of the piece with part 0, if parts are alike.
  template <class Body>
  void for_parts(const Piece& piece, const Body& body) const {
    const std::int64_t matrix = matrix_of(piece.tensor);
    if (matrices_[matrix].alike) return body(piece, std::size_t{0});
    std::int64_t begin = 0, at = 0;
    std::size_t part = 0;
    const auto flush = [&] {
      if (at > begin) body(piece.part(begin, at - begin), part);
      begin = at;
    };
    for_stretches(matrix, tp_rank_, piece.tensor_begin, piece.numel, [&](const Stretch& next) {
      if (next.part != part) flush();
      part = next.part;
      at += next.numel;
    });
    flush();
  }

 private:
  struct OwnedPiece {
    int rank = 0;
    Piece piece;
  };

  void add_matrices(const OptimizerSetup& setup, const std::vector<TpMatrixParts>& parts);
  void find_gatherers(const OptimizerSetup& setup, const std::vector<TpMatrixParts>& parts);
  void find_pieces(const OptimizerSetup& setup);
  void find_batches(const std::vector<TpMatrixParts>& parts, std::int64_t batch_numel);
  /// From an element of the undistributed matrix on.
  static Stretch stretch_at(const WholeMatrix& matrix, std::int64_t element);
  /// Elements in the memory of a rank that gathers the matrix.
  std::int64_t memory_numel(std::int64_t matrix) const {
    return matrices_[matrix].shared ? numel_[tp_rank_][matrix] : matrices_[matrix].numel();
  }

  const int ranks_, rank_, tp_rank_;
  const bool returns_;
  std::vector<WholeMatrix> matrices_;
  std::vector<std::int64_t> of_tensor_;          // [num_tensors]
  std::vector<std::vector<OwnedPiece>> pieces_;  // [matrices], by rank; of others only if gathered
  std::vector<std::vector<TensorPlacement>> places_;  // [tp ranks][matrices]
  std::vector<std::vector<std::int64_t>> numel_;      // the same: elements of the TP rank's tensor
  std::vector<bool> owns_;                            // [matrices]: this rank has an element
  std::vector<std::int64_t> begin_;                   // [matrices]
  std::vector<MatrixBatch> batches_;
};

}  // namespace zeroproof::cuda
