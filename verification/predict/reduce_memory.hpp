#pragma once
// Nodes and messages of phase reduce: what a rank holds in cuda/README.md, "Memory of a step", counted without values.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "verification/predict/leaf_stacks.hpp"
#include "verification/predict/memory_tally.hpp"
#include "verification/predict/predicted_step.hpp"

namespace zeroproof {

/// One rank's phase reduce. For every micro-step repeats(), and if it does not, one_leaf() for every entry of
/// shape.buckets, in the order in which the rank reduces them; then finish(). shape, tally and stacks must outlive it.
class ReduceMemory {
 public:
  ReduceMemory(const PredictedStep& shape, MemoryTally& tally, LeafStacks& stacks);

  /// True if this rank has a leaf in the micro-step.
  bool computes(std::int64_t micro_step) const { return move(micro_step).here; }

  /// True if an earlier micro-step began as this one does and did the same: then it is counted, as nothing in it can be
  /// larger than it was.
  bool repeats(std::int64_t micro_step);

  /// The leaf of an entry's buckets, which are equal.
  void one_leaf(std::size_t b, std::int64_t micro_step);
  void finish();

 private:
  /// What a micro-step starts from.
  struct Start {
    bool begun = false;
    StackMove move;
    std::int64_t nodes = 0;
    std::array<std::int64_t, 3> wires{};
    std::map<std::int64_t, std::int64_t> spare;

    auto operator<=>(const Start&) const = default;
  };
  /// And where it ends, with the bytes it added.
  struct End {
    std::int64_t nodes = 0;
    std::int64_t bytes = 0;
    std::map<std::int64_t, std::int64_t> spare;
  };
  /// What is left on the stacks of an instance.
  struct Left {
    std::int64_t mine = 0;     ///< on this rank's
    std::int64_t others = 0;   ///< on those of the other ranks together
    std::int64_t senders = 0;  ///< other ranks with an entry
    std::int64_t joined = 0;   ///< when all leaves of this instance are on one stack
    std::int64_t told = 0;     ///< the same, added over all instances
  };

  StackMove move(std::int64_t micro_step) const;
  void begin();
  void note_end();
  Left left_on_stacks() const;
  void keep(std::size_t b, const StackMove& move, bool combined);
  void receive(std::size_t b, const StackMove& move, bool combined);
  void finish_bucket(std::size_t b, const Left& left);
  std::int64_t held_nodes() const;
  void hold_nodes(std::int64_t bytes) { tally_.add(MemoryClass::grad_nodes, bytes); }
  void take_nodes(std::int64_t bytes, std::int64_t most, std::int64_t after, std::int64_t times = 1,
                  std::int64_t freed = 0);

  const PredictedStep& shape_;
  MemoryTally& tally_;
  LeafStacks& stacks_;
  bool begun_ = false;
  WireTally out_, in_, gathered_;
  LeafNumbers leaves_;            // of this rank
  std::vector<StackMove> moves_;  // [micro_steps] of leaves that stay
  std::int64_t nodes_ = 0;        // on all stacks of a bucket that has been reduced: the same for all of them
  std::vector<bool> reduced_;     // [buckets]
  std::map<std::int64_t, std::int64_t> spare_;  ///< nodes done with, by their bytes
  std::map<Start, End> known_;                  ///< micro-steps by what they started from
  End* last_ = nullptr;                         ///< of the micro-step that is being counted
};

}  // namespace zeroproof
