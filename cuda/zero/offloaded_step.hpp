#pragma once

#include <functional>

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
  /// Phase cast, with the counts after the update. Nothing in the fused form, but of parameters with scales.
  virtual void cast_chunks(const StepDecision& decision);

  // Parameters with scales (R24), for which those of all masters meet: before the others', and after them.

  /// What a state that was loaded brings, and ParamScales::elsewhere() of its masters.
  void load_collected(const FullState& state);
  /// ParamScales::elsewhere() of the new masters, with the counts after the update. Nothing if the update has done so.
  void collect_chunks(const StepDecision& decision);
  /// Masters were changed after that.
  void forget() { is_collected_ = false; }

 protected:
  const host::PieceLoop& updated() const override { return chunk_->pieces; }
  host::FusedState state_of(const Piece& piece) const override;
  host::GradStretch grad_of(const Piece& piece) const override;
  TensorView params_of(const Piece& piece) const override;

  std::size_t at(const Piece& piece) const {
    return static_cast<std::size_t>(split_->place(piece.local_begin) - chunk_->begin);
  }
  /// Whether a tensor takes part: its parameters are made.
  using TakesPart = std::function<bool(std::int64_t tensor)>;
  TakesPart updated_now() const {
    return [this](std::int64_t tensor) { return steps_.updated(tensor); };
  }
  /// The chunk's parameters that have been made go to where the others are.
  void send_params(const TakesPart& takes_part);
  void cast_all();
  void collect_chunk(const TakesPart& takes_part);
  void collect_all(const TakesPart& takes_part);
  /// Codes of the offloaded parameters; dequantise: masters become what the codes say.
  void code_chunks(const TakesPart& takes_part, bool dequantise);
  const StateSplit::Chunk* next_chunk() const;

  OffloadedState& offloaded_;
  ChunkLane* const lane_;
  const StateSplit::Chunk* chunk_ = nullptr;  ///< that is being updated, as the three below
  host::FusedState chunk_state_;
  const float* chunk_grad_ = nullptr;  ///< null: in the shard, where the host reads it, or a leaf
  std::byte* chunk_params_ = nullptr;  ///< null: in the shard
  std::optional<TensorView> leaf_;
  ParamScales* const scales_;  ///< null: parameters have none
  bool is_collected_ = false;
};

}  // namespace zeroproof::cuda
