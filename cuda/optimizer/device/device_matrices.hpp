#pragma once

#include <cstdint>
#include <vector>

#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/kernels/update/newton_schulz.hpp"
#include "cuda/device/step/step_passes.hpp"
#include "cuda/optimizer/matrices/matrix_moves.hpp"

namespace zeroproof::cuda {

/// The matrices of a rank in a step on a device (R28), as pieces of work without host reads in
/// between. All matrices are exchanged in every step: the elements of one without a gradient are
/// +0.
class DeviceMatrices {
 public:
  /// memory: of the step; its matrices are set. The shard has matrices; it and the comm_groups
  /// outlive this.
  DeviceMatrices(const RankShard& shard, const CommGroups& comm_groups, device::StepMemory& memory);

  /// The step of the tensors that are no matrices.
  const device::StepMemory& others() const { return others_; }

  /// +0 for all elements of O.
  void reset() const;

  void enqueue_momentum(const device::StepRules& rules, bool fused) const {
    device::enqueue_matrix_momentum(own_, rules, fused);
  }

  std::int64_t num_batches() const { return static_cast<std::int64_t>(plan_.batches().size()); }
  /// Batch n from the shards of all ranks into whole matrices. Collective, as MatrixMoves::gather.
  void gather(std::int64_t batch);
  /// Newton-Schulz of these matrices. Does nothing in a skipped step, or after a halt.
  void enqueue_newton_schulz(std::int64_t batch) const;
  /// Their elements of O back. Collective, as MatrixMoves::scatter.
  void scatter() { moves_.scatter(); }
  /// All three for every batch.
  void orthogonalise();
  /// Whether other ranks take part.
  bool joins() const { return moves_.joins(); }

  void enqueue_update(const device::StepRules& rules, bool fused) const {
    device::enqueue_matrix_update(own_, rules, fused);
  }

  ExposedBuffer exposed() const { return {BufferId::orthogonal, orthogonal_->view(), ranges_}; }

 private:
  struct Tables {
    std::vector<device::StepPiece> pieces;  ///< of other tensors, then of matrices
    std::int64_t num_others = 0;
    std::vector<device::StepMatrix> tensors = {};
    std::vector<device::StepMatrixPart> parts = {};
    std::int64_t values_numel = 0;  ///< of Newton-Schulz of the largest part on this rank
  };
  static Tables tables_of(const RankShard& shard);

  const MuonSettings& settings_;
  const MatrixExchange& plan_;
  const std::vector<FlatRange>& ranges_;
  CountedBuffer& orthogonal_;
  const Tables tables_;
  const SpaceArray<device::StepPiece> pieces_;
  const SpaceArray<device::StepMatrix> tensors_;
  const SpaceArray<device::StepMatrixPart> parts_;
  const SpaceArray<device::MatrixNorm> norm_;
  MatrixMoves moves_;
  device::StepMemory own_, others_;  // the step of matrices, of other tensors
  float* whole_ = nullptr;           // memory of the batch that was gathered last
};

}  // namespace zeroproof::cuda
