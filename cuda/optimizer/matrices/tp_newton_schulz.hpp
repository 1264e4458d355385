#pragma once
// Newton-Schulz of the matrices that TP ranks share (R28), on the host.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/comm/exchange/grad_memory.hpp"
#include "cuda/host/update/matrix_product.hpp"
#include "cuda/host/update/newton_schulz_steps.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/matrices/tp_slices.hpp"

namespace zeroproof::cuda {

/// No rank has the whole X: each computes the folds of X X^T of its blocks (R27), receives those of
/// the other ranks for its share of the rows, and folds them by the tree of R18. Rows of A and of B
/// are then gathered, and B X needs the own columns only.
class TpNewtonSchulz {
 public:
  /// messages: memory for them. All of it outlives this.
  TpNewtonSchulz(const OptimizerSetup& setup, const MatrixExchange& plan, GradMemory& messages,
                 const KernelTable& ops);

  /// Elements of memory that orthogonalise() needs; 0 if this rank gathers no shared matrix.
  std::int64_t memory_numel() const { return slices_.most_numel() + work_numel_; }

  /// Replaces this TP rank's elements of the shared matrices of a batch by those of O. whole: the
  /// memory of the batch. memory: [memory_numel()]. Collective over tp.
  void orthogonalise(const MatrixBatch& batch, const MatrixExchange::Updated& updated, float* whole,
                     float* memory);

 private:
  /// Memory of one part besides its slice.
  struct Work {
    float *next, *gram, *folds, *scaled, *panels;
  };
  /// A slice that is iterated, with the squares of its elements of E.
  struct Started {
    const TpSlice* slice;
    NormLimbs squares;
  };

  FlatRange rows_of(const TpSlice& slice, int rank) const {
    return {share_begin(slice.shorter, rank, ranks_), share_begin(slice.shorter, rank + 1, ranks_)};
  }
  /// Matrices in work.folds: B takes the place of the first, also on a rank without blocks.
  std::int64_t num_folds() const {
    return std::max<std::int64_t>(numel(Span<const TreeNode>(nodes_[rank_])), 1);
  }
  Work work_in(float* memory, const TpSlice& slice) const;
  /// Of F, for the form scaled_factor.
  std::int64_t scaled_numel(const TpSlice& slice) const;
  std::int64_t panels_numel(const TpSlice& slice) const;
  std::int64_t work_numel_of(const TpSlice& slice) const {
    return slice.numel() + (1 + num_folds()) * slice.shorter * slice.shorter + scaled_numel(slice) +
           panels_numel(slice);
  }
  void reserve_messages();
  void exchange(const std::vector<std::vector<MatrixRun>>& send,
                std::int64_t MatrixRun::*send_begin, float* from,
                const std::vector<std::vector<MatrixRun>>& receive,
                std::int64_t MatrixRun::*receive_begin, float* to);
  std::vector<double> norms_of(std::vector<Started>& all) const;
  void iterate(const TpSlice& slice, double norm, float* x, const Work& work);
  /// A into work.gram.
  void make_gram(const TpSlice& slice, const float* x, const Work& work,
                 host::MatrixMultiplier& multiplier);
  void round(Span<float> values) const;
  /// Every rank has its rows; afterwards all of them.
  void gather_rows(const TpSlice& slice, float* matrix);

  const OptimizerSetup& setup_;
  const KernelTable& ops_;
  const MatrixExchange& plan_;
  GradMemory& messages_;
  const int rank_, ranks_;
  const TpSlices slices_;
  const std::vector<std::vector<TreeNode>> nodes_;  // [tp ranks], over the blocks of each
  std::int64_t work_numel_ = 0;
  MatrixMessageBytes most_bytes_;
};

}  // namespace zeroproof::cuda
