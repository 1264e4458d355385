#pragma once
// The orthogonalised momentum of a rank's matrices in a step on the host (R28).

#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/matrices/matrix_exchange.hpp"
#include "cuda/optimizer/matrices/matrix_moves.hpp"
#include "cuda/optimizer/matrices/tp_newton_schulz.hpp"
#include "cuda/optimizer/state/local_step.hpp"
#include "cuda/optimizer/state/tensor_steps.hpp"

namespace zeroproof::cuda {

class MatrixUpdates {
 public:
  /// Empty for a rule without matrices. The members of the shard and ops outlive this.
  MatrixUpdates(const RankShard& shard, const KernelTable& ops);
  explicit operator bool() const { return exchange_ != nullptr; }

  /// Whether a piece is of a matrix.
  bool has(const Piece& piece) const { return has(piece.tensor); }
  bool has(std::int64_t tensor) const {
    return exchange_ != nullptr && exchange_->matrix_of(tensor) >= 0;
  }
  /// Whether both are updated by one call, as far as matrices are concerned.
  bool same(const Piece& a, const Piece& b) const {
    return a.tensor == b.tensor || (!has(a) && !has(b));
  }

  /// +0 for all elements.
  void reset();

  /// The elements of a piece: e before orthogonalise(), and elements of O after it.
  Span<float> elements(const Piece& piece) const { return part(*orthogonal_, piece); }

  /// Replaces e of all updated matrices by O, and all other elements by +0. Makes the step sizes.
  /// Collective over comm (from stage 1 on) and tp.
  void orthogonalise(const TensorSteps& steps);
  /// For a step that updates elements whose O another one has made.
  void make_step_sizes(const TensorSteps& steps);

  /// Updates the masters of a piece of a matrix.
  void update(const Exec& exec, const StepScalars& scalars, const Piece& piece,
              Span<float> master) const;

  ExposedBuffer exposed(const std::vector<FlatRange>& ranges) const {
    return {BufferId::orthogonal, (*orthogonal_)->view(), ranges};
  }

 private:
  void set_zero(const MatrixExchange::Updated& wanted);
  /// Whether this rank orthogonalises a matrix without other TP ranks.
  bool computes_whole(std::int64_t matrix) const {
    return !exchange_->matrices()[matrix].shared && exchange_->computes(matrix);
  }
  void compute(const MatrixBatch& batch, const MatrixExchange::Updated& updated, float* whole,
               float* memory) const;

  const OptimizerSetup& setup_;
  const KernelTable& ops_;
  const host::PieceLoop& pieces_;
  const MatrixExchange* const exchange_;
  CountedBuffer* const orthogonal_;
  std::optional<TpNewtonSchulz> shared_;        // with matrices that TP ranks share
  std::optional<MatrixMoves> moves_;            // with matrices
  std::vector<std::vector<float>> step_sizes_;  // [matrices][parts]
};

}  // namespace zeroproof::cuda
