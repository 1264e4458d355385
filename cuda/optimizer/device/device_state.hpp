#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cuda/comm/exchange/comm_groups.hpp"
#include "cuda/comm/memory/space_array.hpp"
#include "cuda/device/step/stored_passes.hpp"
#include "cuda/optimizer/state/local_step.hpp"

namespace zeroproof::cuda {

/// State and master that are not fp32, in device memory (R25): the update, the combination over
/// ranks for blocks that cross a rank boundary, and the stores after it, as pieces of work without
/// host reads in between. memory: of the step.
class DeviceState {
 public:
  /// Objects referenced by the shard and the comm_groups must outlive this. Collective over tp, if
  /// a format has scales.
  DeviceState(const RankShard& shard, const CommGroups& comm_groups);

  /// Stores the values that `read` returns, for all pieces (LocalStep::load_stored). Collective if
  /// blocks are shared. memory: with the counts of the state.
  void load(const StateBlocks::Chosen& of_codes, const StateBlocks::Change& read,
            device::StepMemory memory, const device::StepRules& rules) const;

  /// device::enqueue_trust_norms of all pieces.
  void trust_norms(const device::StepMemory& memory, const device::StepRules& rules,
                   bool fused) const;
  /// Phase update of the elements that need no other rank. fused: from G, with parameters that have
  /// no scales.
  void update(const device::StepMemory& memory, const device::StepRules& rules, bool fused) const;
  /// Whether a block with a scale crosses a rank boundary.
  bool joins() const;
  /// Collective over comm (from stage 1 on) and tp.
  void join() const;
  /// Stores the fragments that waited for the maxima. Does nothing in a skipped step, or after a
  /// halt.
  void finish(const device::StepMemory& memory) const;

  /// Whether the cast copies masters.
  bool master_is_bf16() const { return memory_.master_is_bf16; }
  void copy_masters(const device::StepMemory& memory) const;

 private:
  /// Pieces with the same distance between their state and their gradient and parameter.
  struct Stretch {
    std::int64_t first_piece = 0, num_pieces = 0;
    std::int64_t shift = 0;  ///< elements; 0 without a split
  };
  struct Tables {
    std::vector<Piece> parts;  ///< of the pieces; local_begin is the location of the state
    std::vector<device::StoredPiece> pieces;
    std::vector<Stretch> stretches;
    std::vector<device::StateFragment> fragments;
    std::int64_t num_words = 0;    ///< blocks of all ranks that cross a boundary
    std::int64_t num_waiting = 0;  ///< elements of the fragments
  };
  static Tables tables_of(const RankShard& shard);
  void clear_collected() const;
  using EnqueuePass =
      std::function<void(const device::StepMemory& step, const device::StoredMemory& stored)>;
  /// Calls enqueue with the memory of every range.
  void for_stretches(const device::StepMemory& memory, const EnqueuePass& enqueue) const;

  const OptimizerSetup& setup_;
  const CommGroups comm_groups_;
  const std::vector<StateSlot> kept_;
  const Tables tables_;
  SpaceArray<device::StoredPiece> pieces_;
  SpaceArray<device::StateFragment> fragments_;
  SpaceArray<float> waiting_;            // [buffers with scales][num_waiting]
  SpaceArray<std::uint64_t> collected_;  // [buffers with scales][num_words]
  device::StoredMemory memory_;
};

}  // namespace zeroproof::cuda
