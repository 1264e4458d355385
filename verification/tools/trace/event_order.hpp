#pragma once
// The order in which the ranks of a trace compute and communicate, as events: the frames of the
// player.

#include <cstdint>
#include <string>
#include <vector>

#include "verification/tools/trace/sections.hpp"

namespace zeroproof::verification {

/// Something that ranks do at the same time. Between two collectives they do not wait for each
/// other; their acts are then put together by their order on each rank.
struct TracedEvent {
  /// "state" before a step, "leaf", "gather", "forward", "backward", "release", "message", "node",
  /// "chunks", "write", "skipped" or "nothing".
  std::string kind;
  std::vector<std::int64_t> of = {};  ///< micro-batches, visits, nodes (of the step), or the call
  std::vector<std::int64_t> gathers = {};  ///< of a message: visits that begin with it
  std::vector<int> places = {};  ///< [world_size] of each rank's act, -1 without one; or empty
};

/// Ranks that add a node (R11): the one that computed all of its leaves and keeps them adds it
/// whole, otherwise each owner adds its own elements. -1: the owners.
int adding_rank(const StepTrace& trace, const TracedNode& node);

/// The events of a phase, in an order in which they can happen. The last one is what the phase
/// leaves.
std::vector<TracedEvent> traced_events(const StepTrace& trace, std::size_t step, Phase phase);

/// Index of the event in which a rank's memory changed.
std::size_t event_of(const std::vector<TracedEvent>& events, std::size_t rank,
                     const TracedMemory& memory);

/// Changes of a rank's memory in a phase, in order. In stage 3 a unit that is released is seen on
/// the ledger when the next one is there already; here they are two changes, as visits are.
std::vector<TracedMemory> memory_changes(const TracedStep& step, Phase phase);

}  // namespace zeroproof::verification
