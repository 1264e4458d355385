#pragma once
// The update of matrices by the rule muon (R28).

#include <functional>
#include <vector>

#include "common/layout/tensor_blocks.hpp"
#include "common/step/distributed_optimizer.hpp"
#include "reference/param_scales.hpp"
#include "reference/rule.hpp"

namespace zeroproof::reference {

/// The buffers of an update, by local index.
struct MatrixBuffers {
  const std::vector<float>& grad;
  std::vector<float>& master;
  RuleState& state;
  std::vector<float>& orthogonal;
};

/// The matrices of a model; under other rules than muon there are none.
class MatrixUpdate {
 public:
  /// The scalars of a tensor.
  using ScalarsOf = std::function<const StepScalars&(std::int64_t tensor)>;
  /// Combines the bits of all elements of a matrix: a rank passes 0 for the elements of other
  /// ranks.
  using Join = std::function<void(std::int64_t tensor, Span<std::uint64_t> bits)>;

  MatrixUpdate() = default;
  /// placement, matrices: [num_tensors] of OptimizerSetup, or empty: the layout is the
  /// undistributed one.
  explicit MatrixUpdate(const StepSettings& settings, std::vector<TensorPlacement> placement = {},
                        std::vector<TensorMatrix> matrices = {});

  bool contains(std::int64_t tensor) const {
    return !tensors_.empty() && tensors_[tensor].is_matrix;
  }

  /// The update of all matrices that take part. pieces: of the rank, of all tensors. Every rank
  /// calls join for the same matrices in the same order, also for matrices of which it has no
  /// element. orthogonal becomes +0 in all other elements of the pieces.
  void run(const std::vector<Piece>& pieces, const TakesPart& takes_part,
           const ScalarsOf& scalars_of, const MatrixBuffers& buffers, const Join& join) const;

 private:
  void move_momentum(const StepScalars& scalars, const std::vector<BlockRun>& own,
                     const MatrixBuffers& buffers) const;
  std::vector<float> joined(std::int64_t tensor, const std::vector<BlockRun>& own,
                            const std::vector<float>& direction, const Join& join) const;
  std::vector<float> orthogonalise(std::int64_t tensor, const StepScalars& scalars,
                                   std::vector<float>& matrix) const;
  std::int64_t part_of(std::int64_t tensor, std::int64_t element) const;

  OptimizerHyper hyper_;
  std::vector<MatrixTensor> tensors_;
  TensorBlocks positions_;  // of a rank's elements in the undistributed matrices; one block each
};

}  // namespace zeroproof::reference
