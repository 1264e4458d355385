#pragma once
// How TP ranks share the matrices that they split (R28): each has the columns of X of its blocks.

#include <cstdint>
#include <vector>

#include "cuda/optimizer/matrices/matrix_exchange.hpp"

namespace zeroproof::cuda {

/// A part of a matrix as X, shorter x longer, and the columns of X that this rank has. In memory
/// they are in the order of the part: its columns, or if X is its transpose, its rows.
struct TpSlice {
  std::int64_t shorter = 0, longer = 0;
  bool transposed = false;
  FlatRange columns;       ///< of X
  std::int64_t place = 0;  ///< of the first element, in the memory of slices of the batch

  std::int64_t numel() const { return shorter * columns.numel(); }
};

/// The blocks of R18 that a TP rank has: [first, last) of 8, none on some of more than 8 ranks.
inline FlatRange tp_blocks(int tp_rank, int tp_ranks) {
  return {8 * std::int64_t{tp_rank} / tp_ranks, 8 * (std::int64_t{tp_rank} + 1) / tp_ranks};
}

/// Begin of the elements of n that one of `ranks` has, and for rank = ranks their end.
inline std::int64_t share_begin(std::int64_t n, int rank, int ranks) { return n * rank / ranks; }

/// The slices of one rank in the matrices it gathers, and the elements that TP ranks exchange for
/// them.
class TpSlices {
 public:
  /// The plan outlives this.
  TpSlices(const MatrixExchange& plan, int tp_rank, int tp_ranks);

  /// Of the parts of a matrix; empty unless it is shared and this rank gathers it.
  const std::vector<TpSlice>& of(std::int64_t matrix) const { return slices_[matrix]; }
  /// Elements of the slices of the largest batch.
  std::int64_t most_numel() const { return most_numel_; }

  /// Elements by the TP rank that has the others: away in the memory of the batch (local_begin), here
  /// in the memory of slices (place), own in both. The way back is the reverse.
  MatrixMessages messages(const MatrixBatch& batch, const MatrixExchange::Updated& updated) const;

 private:
  /// Columns of X that a rank has.
  FlatRange columns_of(const TpSlice& slice, int tp_rank) const;
  /// Calls body(rank, run) for the elements of a TP rank, in order, by the rank whose slice has them;
  /// run.local_begin counts from the begin of the tensor, run.place from that of the matrix's slices.
  template <class Body>
  void for_runs(std::int64_t matrix, int tp_rank, const Body& body) const;

  const MatrixExchange& plan_;
  const int tp_rank_, tp_ranks_;
  std::vector<std::vector<TpSlice>> slices_;  // [matrices][parts]
  std::int64_t most_numel_ = 0;
};

}  // namespace zeroproof::cuda
