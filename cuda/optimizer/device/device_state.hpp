#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/step/stored_passes.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// State and master that are not kept in fp32, in memory of a device (R25): the update, what ranks join of blocks that
/// a cut goes through, and what is stored then, as pieces of work that nobody looks at in between. memory: of the step.
class DeviceState {
 public:
  /// What the shard and the comm_groups refer to outlives this. Collective over tp, if a format has scales.
  DeviceState(const RankShard& shard, const CommGroups& comm_groups);

  /// Stores what `read` fills in, of all pieces (LocalStep::load_stored). Collective, if it joins. memory: with the
  /// counts of the state.
  void load(const StateBlocks::Chosen& of_codes, const StateBlocks::Change& read,
            device::StepMemory memory, const device::StepRules& rules) const;

  /// Phase update of what needs no other rank. fused: of G, and with parameters that have no scales.
  void update(const device::StepMemory& memory, const device::StepRules& rules, bool fused) const;
  /// Whether a block that has a scale is cut between ranks.
  bool joins() const;
  /// Collective over comm (from stage 1 on) and tp.
  void join() const;
  /// What waited for that. Nothing in a skipped step, or after a halt.
  void finish(const device::StepMemory& memory) const;

  /// Whether the cast copies masters.
  bool master_is_bf16() const { return memory_.master_is_bf16; }
  void copy_masters(const device::StepMemory& memory) const;

 private:
  /// Pieces of which gradient and parameter lie as far from where the state is as those of the others.
  struct Stretch {
    std::int64_t first_piece = 0, num_pieces = 0;
    std::int64_t shift = 0;  ///< elements; 0 without a split
  };
  struct Tables {
    std::vector<Piece> parts;  ///< as the pieces; local_begin is where the state is, as in those
    std::vector<device::StoredPiece> pieces;
    std::vector<Stretch> stretches;
    std::vector<device::StateFragment> fragments;
    std::int64_t num_words = 0;    ///< blocks that a cut goes through, of all ranks
    std::int64_t num_waiting = 0;  ///< elements of the fragments
  };
  static Tables tables_of(const RankShard& shard);
  void clear_collected() const;
  using EnqueuePass =
      std::function<void(const device::StepMemory& step, const device::StoredMemory& stored)>;
  /// Calls enqueue with the memory of every stretch.
  void for_stretches(const device::StepMemory& memory, const EnqueuePass& enqueue) const;

  const OptimizerSetup& setup_;
  const CommGroups comm_groups_;
  const std::vector<std::size_t> kept_;  ///< places in state_buffers
  const Tables tables_;
  SpaceArray<device::StoredPiece> pieces_;
  SpaceArray<device::StateFragment> fragments_;
  SpaceArray<float> waiting_;            // [buffers with scales][num_waiting]
  SpaceArray<std::uint64_t> collected_;  // [buffers with scales][num_words]
  device::StoredMemory memory_;
};

}  // namespace zeroproof::cuda
