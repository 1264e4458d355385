#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/kernel_table.hpp"
#include "cuda/optimizer/host/global_norm.hpp"
#include "cuda/optimizer/host/scaled_cast.hpp"
#include "cuda/optimizer/host/step_sum.hpp"
#include "cuda/optimizer/host/trust_ratios.hpp"
#include "cuda/optimizer/matrices/matrix_updates.hpp"
#include "cuda/optimizer/state/local_step.hpp"
#include "cuda/optimizer/state/tensor_steps.hpp"

namespace zeroproof::cuda {

/// The step over memory of the host, one call of an operation for each piece. Subclasses may override single phases.
class HostStep : public LocalStep {
 public:
  /// fused: only with the host implementations. ops: the implementations to call; they and the
  /// objects the shard refers to outlive this.
  HostStep(RankShard& shard, bool fused, const KernelTable& ops);

  HostStep(const HostStep&) = delete;
  HostStep& operator=(const HostStep&) = delete;

  void load(const FullState& state) override;
  void load_stored(const FullState& state, const StateBlocks::Chosen& of_codes,
                   const StateBlocks::Change& read) override;
  void prepare(GradSource& leaves) override;
  void begin_sum() override { sum_.begin(); }
  /// The gradient buffer. In the fused form with one clip group the finite check and, where the
  /// form allows it, the norm are computed while G is added up; the reduction does not separate
  /// tensors, so several groups cannot be.
  GradTarget grad_target() override;
  void end_sum(const std::optional<TensorView>& leaf, const GradTarget& target) override;
  void unscale() override;
  bool skipped() const override {
    return found_inf_ != 0 && setup_.on_nonfinite != OnNonfinite::propagate;
  }
  void norm() override;
  void clip() override;
  void prepare_update() override;
  void add_trust_norms(Span<const TrustNorms> norms) override { trust_.add(norms); }
  void update() override {
    if (tiles_ != nullptr) return update_tiles();
    fused_ ? update_fused() : update_pieces();
  }
  void cast() override;
  std::vector<ExposedBuffer> exposed(Phase phase) override;
  void overwritten(Phase phase) override;
  bool fused() const override { return fused_; }
  StepDecision decision() const override;
  LossScalerState loss_scaler() const override { return scaler_; }
  std::int64_t applied_steps() const override {
    return static_cast<std::int64_t>(steps_.applied_steps());
  }

 protected:
  /// True if the unscaled gradient of a piece has an infinity or NaN. Adds to norm in the fused form only.
  bool unscale_piece(const Exec& exec, const Piece& piece, NormPart& norm);
  /// Adds the norms of R6 of all updated elements to trust_.
  void collect_trust_norms();
  using TileNorms = std::function<void(const Exec& exec, const Piece& piece,
                                       const host::FusedState& state, TrustRatios::Part& norms)>;
  /// The same of state that is not stored in fp32.
  virtual void collect_tile_norms(const StateBlocks::Wanted& wanted, const TileNorms& body) {
    tiles_->sum<TrustRatios::Part>(setup_.exec, wanted, body,
                                   [&](const TrustRatios::Part& part) { trust_.add(part); });
  }
  void add_norms_of(const Exec& exec, const Piece& piece, const host::FusedState& state,
                    TrustNorms& norms);
  /// Makes the momentum of all updated matrices, and e (R28).
  void move_momenta();
  void move_momentum(const Exec& exec, const Piece& piece, Span<float> exp_avg) const;
  /// Phase update of a piece of a matrix; casts: and the cast.
  void update_matrix(const Exec& exec, const Piece& piece, Span<float> master, bool casts) const;
  virtual void update_pieces();
  /// piece: of one tensor, or joined ones that have the same scalars and trust ratio.
  virtual void update_piece(const Exec& exec, const Piece& piece);
  virtual void update_fused();
  /// The same, in phases or fused, for state that is not stored in fp32 (R25).
  void update_tiles();
  /// Storage of the tiles of that update.
  virtual void store_updates(const StateBlocks::Wanted& wanted, const StateBlocks::Change& update,
                             const StateBlocks::Stored& stored) const {
    tiles_->update(setup_.exec, wanted, update, round_masters(1), stored);
  }
  void take_counters(const FullState& state);
  /// The rounding of masters to bf16, `updates_ahead` of the counted updates.
  StateBlocks::Round round_masters(std::uint64_t updates_ahead) const;
  /// Random words of a piece's stochastic rounding, `updates_ahead` of the counted updates.
  virtual RoundingDraw draw(const Piece& piece, std::uint64_t updates_ahead) const;
  /// Calls body(part) for ranges of a piece that draw neighbouring random words: rows of the
  /// undistributed tensor.
  template <class Body>
  void for_draws(const Piece& piece, const Body& body) const;
  void cast_pieces();
  /// Computes every parameter of the shard again, after a state was loaded.
  void cast_loaded(const FullState& state);
  /// The pieces of update and cast, and the places of their state, gradient and parameters.
  virtual const host::PieceLoop& updated() const {
    return split_ == nullptr ? pieces_ : split_->resident();
  }
  virtual host::FusedState state_of(const Piece& piece) const;
  virtual Span<const bf16> bf16_master_of(const Piece& piece) const {
    return part<bf16>(master_, here(piece));
  }
  virtual host::GradStretch grad_of(const Piece& piece) const { return sum_.stretch(piece); }
  virtual TensorView params_of(const Piece& piece) const { return param_store_.of(piece); }
  /// A piece in the numbering of its state, or of the buffers beside it.
  Piece here(Piece piece) const {
    if (split_ != nullptr) piece.local_begin = split_->place(piece.local_begin);
    return piece;
  }
  template <class T>
  Span<T> params_as(const Piece& piece) const {
    return {static_cast<T*>(params_of(piece).data), static_cast<std::size_t>(piece.numel)};
  }
  void cast_piece(const Exec& exec, const Piece& piece);
  /// master: of the piece, `updates_ahead` of the counted updates.
  void cast_values(const Exec& exec, const Piece& piece, Span<const float> master,
                   std::uint64_t updates_ahead) const;
  /// True if two neighbours draw neighbouring random words in the same step, or none.
  bool can_round_together(const Piece& a, const Piece& b) const;
  /// Clip group of a piece: selects its norm and coefficient (R12).
  std::size_t clip_group(const Piece& piece) const {
    return static_cast<std::size_t>(setup_.clip_groups.of(piece.tensor));
  }
  bool same_clip_group(const Piece& a, const Piece& b) const {
    return clip_group(a) == clip_group(b);
  }
  /// False for elements that TP rank 0 counts in the norm (R12).
  bool counted(const Piece& piece) const;

  const OptimizerSetup& setup_;
  const bool fused_;
  const KernelTable& ops_;
  const std::vector<FlatRange>& ranges_;
  const host::PieceLoop& pieces_;
  const CountedBuffer& grad_;  // G, then g1, then g (phases); G only (fused)
  const CountedBuffer& master_;
  const ParamStore& param_store_;
  const RuleState& state_;
  const StateSplit* const split_;
  const StateBlocks* const tiles_;
  StepSum sum_;
  TensorSteps steps_;
  const std::vector<std::unique_ptr<ScaledCast>> scaled_;  ///< of scaled_shards(); empty: no scales
  GlobalNorm global_norm_;
  TrustRatios trust_;
  MatrixUpdates matrices_;
  LossScalerState scaler_;
  std::uint32_t found_inf_ = 0;
  const std::vector<std::optional<double>> max_norms_;  // [clip groups], as the two below
  std::vector<double> grad_norm_;
  std::vector<float> clip_coef_;
};

/// Returns a factory of HostSteps. ops outlive its results.
MakeLocalStep host_steps(bool fused, const KernelTable& ops);

}  // namespace zeroproof::cuda
