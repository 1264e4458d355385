#pragma once
// The update of elements whose state or master is not stored in fp32 (R25): read, updated and
// stored in tiles, so that their fp32 values stay in the caches.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/step/distributed_optimizer.hpp"
#include "cuda/host/base/piece_loop.hpp"
#include "cuda/offload/state_split.hpp"
#include "cuda/optimizer/state/rule_state.hpp"
#include "cuda/optimizer/state/state_ranges.hpp"

namespace zeroproof::cuda {

/// Addresses of state and master of elements that are not all stored in fp32.
class StoredPlace {
 public:
  virtual ~StoredPlace() = default;
  /// Address of the first element of a piece; codes: of a slot.
  virtual std::byte* codes(StateSlot slot, const Piece& piece) const = 0;
  virtual std::byte* master(const Piece& piece) const = 0;
  /// scale_inv of the block that contains a piece.
  virtual float& scale(StateSlot slot, const Piece& of_block) const = 0;
};

/// The blocks of R25 on a rank. Most of them are whole; of blocks split between ranks it has
/// fragments, whose values wait until the ranks have joined their largest magnitudes.
class StateBlocks {
 public:
  /// Changes the values of a piece in fp32, in place: an update, or a load.
  using Change =
      std::function<void(const Exec& exec, const Piece& piece, const host::FusedState& state)>;
  /// Rounds the masters of a piece.
  using Round = std::function<void(const Exec& exec, const Piece& piece, Span<const float> values,
                                   Span<bf16> master)>;
  using Wanted = std::function<bool(const Piece& piece)>;
  /// Whether a buffer of a piece is stored; the others keep their bits.
  using Stored = std::function<bool(const Piece& piece, BufferId buffer)>;
  using Chosen = PerSlot<bool>;

  /// pieces: of the rank, whose state is in these buffers. split: null if all of it is. The other
  /// arguments outlive it. Collective over tp, if a format has scales.
  StateBlocks(const OptimizerSetup& setup, const std::vector<Piece>& pieces, const RuleState& state,
              const CountedBuffer& master, const StateSplit* split = nullptr);

  /// Phase update of the pieces of wanted tensors. Collective over comm (from stage 1 on) and tp,
  /// if a block with a scale is split between ranks.
  void update(const Exec& exec, const Wanted& wanted, const Change& update, const Round& round,
              const Stored& stored) const;

  /// Stores the values from `read`, of all pieces. of_codes: buffers for which it reads codes,
  /// widened; their scales are already on the rank. Collective as update().
  void load(const Exec& exec, const Chosen& of_codes, const Change& read, const Round& round) const;

  /// Both for state in other memory, of pieces in which every block is whole: not collective.
  void update_at(const StoredPlace& place, const host::PieceLoop& loop, const Exec& exec,
                 const Wanted& wanted, const Change& update, const Round& round,
                 const Stored& stored) const;
  void load_at(const StoredPlace& place, const host::PieceLoop& loop, const Exec& exec,
               const Chosen& of_codes, const Change& read, const Round& round) const;

  /// Sums over what an update of the pieces of wanted tensors would read: body(exec, piece, state,
  /// sum) adds to a Sum of the worker; add(sum) as in PieceLoop::sum_joined().
  template <class Sum, class Body, class Add>
  void sum(const Exec& exec, const Wanted& wanted, const Body& body, const Add& add) const {
    sum_at<Sum>(own_, whole_blocks_, exec, wanted, body, add);
    sum_at<Sum>(own_, fragments_, exec, wanted, body, add);
  }
  /// The same for state in other memory.
  template <class Sum, class Body, class Add>
  void sum_at(const StoredPlace& place, const host::PieceLoop& loop, const Exec& exec,
              const Wanted& wanted, const Body& body, const Add& add) const {
    loop.sum_joined<Sum>(
        exec, [](const Piece&, const Piece&) { return false; },
        [&](const Exec& serial, const Piece& block, Sum& sum) {
          if (!wanted(block)) return;
          read_tiles(place, serial, block,
                     [&](const Exec& same, const Piece& piece, const host::FusedState& state) {
                       body(same, piece, state, sum);
                     });
        },
        add);
  }

 private:
  static constexpr std::int64_t tile_numel = 8 * state_block_numel;  // 4 KiB of each buffer
  template <std::int64_t most>
  struct Tile;

  /// The buffers of the rank.
  class OwnPlace final : public StoredPlace {
   public:
    OwnPlace(const OptimizerSetup& setup, const RuleState& state, const CountedBuffer& master,
             const StateSplit* split)
        : setup_(setup), state_(state), master_(master), split_(split) {}
    std::byte* codes(StateSlot slot, const Piece& piece) const override {
      return at(state_[slot], piece);
    }
    std::byte* master(const Piece& piece) const override { return at(*master_, piece); }
    float& scale(StateSlot slot, const Piece& of_block) const override {
      return state_.scale(slot, undistributed_begin(setup_, of_block) / state_block_numel);
    }

   private:
    std::byte* at(const GuardedBuffer& buffer, const Piece& piece) const {
      const std::int64_t local =
          split_ == nullptr ? piece.local_begin : split_->place(piece.local_begin);
      return static_cast<std::byte*>(buffer.data()) + local * num_bytes(buffer.dtype());
    }

    const OptimizerSetup& setup_;
    const RuleState& state_;
    const CountedBuffer& master_;
    const StateSplit* split_;
  };

  /// Calls read for the tiles of a block, and stores nothing.
  void read_tiles(const StoredPlace& place, const Exec& exec, const Piece& block,
                  const Change& read) const;
  void pass_whole(const StoredPlace& place, const host::PieceLoop& loop, const Exec& exec,
                  bool reads, const Wanted& wanted, const Chosen& of_codes, const Change& change,
                  const Round& round, const Stored& stored) const;
  void pass(const Exec& exec, bool reads, const Wanted& wanted, const Chosen& of_codes,
            const Change& change, const Round& round, const Stored& stored) const;
  template <class AnyTile>
  host::FusedState open(const StoredPlace& place, const Exec& exec, const Piece& piece, bool reads,
                        AnyTile& tile) const;
  /// Stores the master and buffers without scales; and those with scales, if the piece ends with
  /// its blocks.
  template <class AnyTile>
  void close(const StoredPlace& place, const Exec& exec, const Piece& piece, bool whole_blocks,
             const Chosen& of_codes, const Round& round, const Stored& stored,
             const AnyTile& tile) const;
  void pass_fragments(const Exec& exec, bool reads, const Wanted& wanted, const Chosen& of_codes,
                      const Change& change, const Round& round, const Stored& stored) const;
  /// The largest magnitudes of split blocks, [buffers with scales][cut_blocks_]; waiting:
  /// [num_waiting_] of each of these buffers. Collective.
  std::vector<std::uint64_t> joined_amax(const Wanted& wanted,
                                         const PerSlot<std::vector<float>>& waiting) const;
  void store_block(const StoredPlace& place, const Exec& exec, StateSlot slot, const Piece& block,
                   Span<const float> values, std::uint32_t amax) const;
  bool has_scales_at(StateSlot slot) const {
    return state_.kept(slot) && has_scales(state_.format(slot));
  }
  bool has_any_scales() const;
  std::size_t word_of(StateSlot slot, const Piece& fragment) const;

  const OptimizerSetup& setup_;
  const RuleState& state_;
  const OwnPlace own_;
  /// Of all ranks, the same on each of them, in increasing order.
  std::vector<std::int64_t> cut_blocks_;
  host::PieceLoop whole_blocks_;        ///< parts of pieces that start and end with blocks
  host::PieceLoop fragments_;           ///< other parts, each in one block
  std::vector<std::int64_t> waits_at_;  ///< [fragments] elements of those before
  std::int64_t num_waiting_ = 0;        ///< elements of all fragments
};

}  // namespace zeroproof::cuda
