#pragma once
// What a rank sends in a step: calls, messages and bytes of every collective, computed from the shape of the step.

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/layout/step_shape.hpp"
#include "common/step/phase.hpp"

namespace zeroproof {

/// Ranks that a collective runs over.
enum class CommGroup : std::uint8_t { shards, instances, tp };
std::string_view name(CommGroup group);

/// Collectives of one kind and purpose in one step. A message is a block of one byte or more to another rank; bytes are
/// those of messages. What a rank copies to itself is not counted.
struct TrafficLine {
  Phase phase = Phase::reduce;
  CommGroup group = CommGroup::shards;
  Collective collective = Collective::all_to_all;
  std::string_view what;  ///< "nodes", "leaves", "parameters", ...
  std::int64_t calls = 0;
  std::int64_t messages = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
};

struct StepTraffic {
  std::vector<TrafficLine> lines;
  std::int64_t messages() const;
  std::int64_t sent_bytes() const;
};

/// One rank's traffic in a step that is not skipped. Leaves added by the communication library (native) are not in it.
///
/// ExchangeCommunicator makes one exchange of every collective: an all_gather sends a rank's block to every other rank
/// (world - 1 messages, the bytes of a ring), and an all_reduce of n words sends all n words to every other rank:
/// 8 n (world - 1) bytes, not the 16 n (world - 1) / world of a ring. Words are few (flags, limbs), so their hops cost
/// more than their bytes [ZeRO:exchange].
///
/// Every bucket of every reduction is one all_to_all of nodes or leaves (R11); in stage 0 the owners' sums are one all_gather
/// per bucket; parameters are one all_gather per bucket (stages 1 and 2) or per unit that is made whole (stage 3).
/// Groups of one rank make no line.
StepTraffic predict_traffic(const StepShape& shape);

}  // namespace zeroproof
