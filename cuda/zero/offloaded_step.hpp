#pragma once

#include "cuda/offload/chunk_lane.hpp"
#include "cuda/offload/offloaded_state.hpp"
#include "cuda/zero/host_step.hpp"

namespace zeroproof::cuda {

/// Update and cast of the offloaded elements, by the host, one chunk at a time, with what another LocalStep of the rank
/// has decided. Its other phases are never called.
class OffloadedStep : public HostStep {
 public:
  /// lane: of a shard on a device; null on the host, where gradient and parameters are used where they are.
  OffloadedStep(RankShard& shard, OffloadedState& state, ChunkLane* lane, bool fused, const PhaseOps& ops);

  /// Makes the parameters of a state that was loaded.
  void load(const FullState& state) override;
  /// The decision is that of the moment before the update.
  virtual void update_chunks(const StepDecision& decision);
  /// Phase cast, with the counts after the update. Nothing in the fused form.
  virtual void cast_chunks(const StepDecision& decision);

 protected:
  const host::PieceLoop& updated() const override { return chunk_->pieces; }
  host::FusedState state_of(const Piece& piece) const override;
  host::GradStretch grad_of(const Piece& piece) const override;
  TensorView params_of(const Piece& piece) const override;

  std::size_t at(const Piece& piece) const {
    return static_cast<std::size_t>(split_->place(piece.local_begin) - chunk_->begin);
  }
  /// The chunk's parameters that have been made go to where the others are. all: those of tensors without a gradient
  /// too.
  void send_params(bool all);
  void cast_all();
  const StateSplit::Chunk* next_chunk() const;

  OffloadedState& offloaded_;
  ChunkLane* const lane_;
  const StateSplit::Chunk* chunk_ = nullptr;  ///< that is being updated, as the three below
  host::FusedState chunk_state_;
  const float* chunk_grad_ = nullptr;  ///< null: in the shard, or a leaf
  std::byte* chunk_params_ = nullptr;  ///< null: in the shard
  std::optional<TensorView> leaf_;
};

}  // namespace zeroproof::cuda
