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
  std::int64_t messages = 0;  ///< sent
  std::int64_t messages_received = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t received_bytes = 0;
};

struct StepTraffic {
  std::vector<TrafficLine> lines;
  std::int64_t messages() const;
  std::int64_t sent_bytes() const;
};

/// One rank's traffic in a step, from prepare to gather; in a skipped step the phases after unscale send nothing. Phases and
/// fused steps send the same.
///
/// Collectives of a step, W ranks to an instance, I instances, T TP ranks; o(r) what rank r owns of a bucket, o this rank's:
///
///     prepare   all_gather   digests of the scalars, 16 bytes a rank: over tp, then all that are known over the shards, then over
///                            the instances; all_reduce of one word for tokens (shards, instances), and of a bit per tensor for
///                            missing_grad = skip (all groups)
///     reduce    all_gather   over tp, per leaf of this rank and bucket with replicated tensors: those, in the leaf dtype
///               all_to_all   tree and binned over the shards: per bucket and micro-step a leaf, or, where leaves are kept, per
///                            bucket once the nodes left (4 o(r) bytes each) or the bins; a rank without leaves sends nothing
///               all_gather   over the instances, per bucket that this rank owns a part of: the nodes left, or the bins
///               reduce_scatter  native: over the shards, per bucket, fp32; over the instances, per bucket with o > 0, shares
///                            from floor(o i / I) to floor(o (i + 1) / I), which an all_gather then brings to all
///               all_gather   stage 0: per bucket the owners' sums. Stage 3, layer by layer: units, each time they are made whole
///     unscale   all_reduce   one word over every group
///     norm      all_reduce   23 words, with the form inf 1: over the shards from stage 1 on, and over tp
///     gather    all_gather   parameters per bucket (stages 1 and 2); persistent tensors, if there are any (stage 3)
///
/// An all_gather sends a rank's block to every other rank (world - 1 messages, the bytes of a ring), an all_reduce of n words
/// all of them: 8 n (world - 1) bytes, not the 16 n (world - 1) / world of a ring (common/comm/recording.hpp). Words are few, so
/// their hops cost more than their bytes [ZeRO:exchange]. Groups of one rank make no line.
StepTraffic predict_traffic(const StepShape& shape, bool skipped = false);

}  // namespace zeroproof
