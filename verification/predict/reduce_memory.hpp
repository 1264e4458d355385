#pragma once
// Nodes and messages of phase reduce: what a rank holds in cuda/README.md, "Memory of a step", counted without values.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "verification/predict/memory_tally.hpp"
#include "verification/predict/predicted_step.hpp"

namespace zeroproof {

/// One rank's phase reduce. one_leaf() for every bucket of every micro-step, in the order in which the rank
/// reduces them; then finish(). shape and tally must outlive it.
class ReduceMemory {
 public:
  ReduceMemory(const PredictedStep& shape, MemoryTally& tally);

  /// True if this rank has a leaf in the micro-step.
  bool computes(std::int64_t micro_step) const { return moves_[static_cast<std::size_t>(micro_step)].here; }

  void one_leaf(std::size_t b, std::int64_t micro_step);
  void finish();

 private:
  /// What one micro-step does to the stacks of a bucket: the same for all buckets.
  struct StackMove {
    bool here = false;         ///< this rank has a leaf
    std::int64_t senders = 0;  ///< other ranks that have one
    std::int64_t before = 0;   ///< entries at the start
    std::int64_t most = 0;     ///< entries at most in between
    std::int64_t after = 0;    ///< entries at the end
  };
  /// What is left on the stacks of an instance.
  struct Left {
    std::int64_t mine = 0;     ///< on this rank's
    std::int64_t others = 0;   ///< on those of the other ranks together
    std::int64_t senders = 0;  ///< other ranks with an entry
    std::int64_t joined = 0;   ///< when all leaves of this instance are on one stack
    std::int64_t told = 0;     ///< the same, added over all instances
  };

  void make_moves();
  void begin();
  Left left_on_stacks() const;
  void keep(std::size_t b, const StackMove& move, bool combined);
  void receive(std::size_t b, const StackMove& move);
  void finish_bucket(std::size_t b, const Left& left);
  std::int64_t data_rank(int rank) const { return std::int64_t{shape_.instance} * shape_.world_size + rank; }
  std::int64_t node_bytes(std::size_t b) const;
  void hold_nodes(std::int64_t bytes) { tally_.add(MemoryClass::grad_nodes, bytes); }
  void take_nodes(std::int64_t bytes, std::int64_t most, std::int64_t after);

  const PredictedStep& shape_;
  MemoryTally& tally_;
  bool begun_ = false;
  WireTally out_, in_, gathered_;
  std::vector<std::vector<std::int64_t>> leaves_;         // [world_size] of this instance
  std::vector<StackMove> moves_;                          // [micro_steps]
  std::vector<std::int64_t> nodes_;                       // [buckets] on all stacks
  std::unordered_map<std::int64_t, std::int64_t> spare_;  ///< nodes done with, by their bytes
};

}  // namespace zeroproof
