#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/offload/offload_stream.hpp"
#include "cuda/offload/offloaded_state.hpp"
#include "cuda/optimizer/host/host_step.hpp"

namespace zeroproof::cuda {

/// Update and cast of the offloaded elements by the host, one chunk at a time, with the decision of
/// another LocalStep of the rank. Its other phases are never called.
class ChunkedHostStep : public HostStep {
 public:
  /// lane: copies gradient and parameters of a shard on a device; null on the host, where both are
  /// used in place.
  ChunkedHostStep(RankShard& shard, OffloadedState& state, OffloadStream* lane, bool fused,
                  const KernelTable& ops);

  /// Reads a checkpoint's scales: those of a slot, from a block of the undistributed numbering on.
  using ReadScales = std::function<void(StateSlot slot, std::int64_t block, Span<float> scales)>;
  /// Fills chunks whose state is not all fp32 (LocalStep::load_stored), of a state that is being
  /// loaded. read: into host memory.
  void fill_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                   const StateBlocks::Change& read, const ReadScales& read_scales);
  /// Makes the parameters of a loaded state.
  void load(const FullState& state) override;
  /// The norms of R6 of these elements, [num_tensors]. decision: as of the time before the update.
  std::vector<TrustNorms> trust_norms(const StepDecision& decision);
  /// The momentum of these elements' matrices, and e (R28). decision: as above.
  void move_momenta(const StepDecision& decision);
  /// decision: the same, with the trust ratios.
  virtual void update_chunks(const StepDecision& decision);
  /// Phase cast, with the counts after the update. No-op in the fused form, except for parameters
  /// with scales.
  virtual void cast_chunks(const StepDecision& decision);

  // Parameters with scales (R24), for which the magnitudes of all masters are joined: before the
  // others', and after them.

  /// Computes the values of a loaded state, and ParamScales::elsewhere() of its masters.
  void load_collected(const FullState& state);
  /// The same for columns that have scales of their own, after those of parameters are made: of
  /// masters that are, if the setup requires it, the dequantized codes of parameters.
  void load_columns(const FullState& state);
  /// ParamScales::elsewhere() of the new masters, with the counts after the update. No-op if the
  /// update has done so.
  void collect_chunks(const StepDecision& decision);
  /// Marks that masters were changed after that.
  void forget() { is_collected_ = false; }
  /// On the host, for columns.
  std::int64_t column_bytes() const;

 protected:
  const host::PieceLoop& updated() const override { return chunk_->pieces; }
  host::FusedState state_of(const Piece& piece) const override;
  Span<const bf16> bf16_master_of(const Piece& piece) const override;
  void store_updates(const StateBlocks::Wanted& wanted, const StateBlocks::Change& update,
                     const StateBlocks::Stored& stored) const override;
  void collect_tile_norms(const StateBlocks::Wanted& wanted, const TileNorms& body) override;
  host::GradStretch grad_of(const Piece& piece) const override;
  TensorView params_of(const Piece& piece) const override;

  std::size_t at(const Piece& piece) const {
    return static_cast<std::size_t>(split_->place(piece.local_begin) - chunk_->begin);
  }
  /// Whether a tensor takes part, that is, its parameters are made.
  using TakesPart = std::function<bool(std::int64_t tensor)>;
  TakesPart updated_now() const {
    return [this](std::int64_t tensor) { return steps_.updated(tensor); };
  }
  /// Copies the chunk's new parameters to the other parameters.
  void send_params(OffloadStream* lane, const TakesPart& takes_part);
  void cast_all();

  /// One of the codes of the masters, and the destination of its parameters: an offload stream, or
  /// host memory.
  struct Code {
    ParamScales* scales = nullptr;
    ParamStore* params = nullptr;
    OffloadStream* lane = nullptr;
    std::byte* chunk = nullptr;  ///< of the stream, for the chunk that is being quantized
  };
  template <class T>
  Span<T> codes_of(const Code& code, const Piece& run) const;
  void forget_elsewhere(Span<const Code> codes) const;
  void collect_chunk(Span<const Code> codes, const TakesPart& takes_part);
  void collect_all(Span<const Code> codes, const TakesPart& takes_part);
  /// Codes of the offloaded parameters; dequantise: masters become the dequantized codes.
  void code_chunks(Span<Code> codes, const TakesPart& takes_part, bool dequantise);
  /// Whether masters of that state become the dequantized codes.
  bool dequantises(const FullState& state) const;
  void follow(const StepDecision& decision);
  /// Calls body(chunk) for every chunk, whose gradients are then on the host.
  template <class Body>
  void for_grads(OffloadedState::Use use, const Body& body);
  const StateSplit::Chunk* next_chunk() const;
  void work_on(const StateSplit::Chunk& chunk, const ChunkState& state);

  OffloadedState& offloaded_;
  OffloadStream* const lane_;
  const StateSplit::Chunk* chunk_ = nullptr;  ///< being updated, as the four below
  ChunkState chunk_state_;
  host::FusedState chunk_values_;      ///< its fp32 buffers
  const float* chunk_grad_ = nullptr;  ///< null: in the shard, or a micro-batch gradient
  std::byte* chunk_params_ = nullptr;  ///< null: in the shard
  std::optional<TensorView> leaf_;
  ParamScales* const scales_;  ///< null: parameters have none
  /// Of columns with codes of their own, on a device.
  const std::unique_ptr<OffloadStream> column_lane_;
  std::vector<Code> codes_;  ///< of parameters, then of such columns; empty without scales
  bool is_collected_ = false;
};

}  // namespace zeroproof::cuda
