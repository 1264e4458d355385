#pragma once
// Messages of a rank in a step: calls, messages and bytes of every collective, computed from the
// shape of the step.

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/comm/collective_call.hpp"
#include "common/step/phase.hpp"
#include "verification/tools/plan/predict/predicted_step.hpp"

namespace zeroproof {

/// Ranks that a collective runs over.
enum class CommGroup : std::uint8_t { shards, instances, tp };
std::string_view name(CommGroup group);

/// Collectives of one kind and purpose in one step. A message is a block of one byte or more to
/// another rank; bytes are those of messages. Copies of a rank to itself are not counted.
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

/// One rank's traffic in a step, from prepare to gather; in a skipped step the phases after unscale
/// send nothing, unless steps are enqueued: there the host cannot test whether the step is skipped.
/// Phases and fused steps send the same. o(r) is the part of rank r in a bucket, o without an
/// argument this rank's; I instances. The collectives, by phase and group:
///
///     prepare  all        all_gather      digests of the scalars, 16 bytes each: over tp; all that are known
///                                         then over the shards; all of those over the instances. Not enqueued
///     prepare  data       all_reduce      tokens: one word over the shards, one over the instances
///     prepare  all        all_reduce      missing_grad = skip: a bit per tensor
///     reduce   tp         all_gather      per leaf of this rank and bucket: elements of its replicated
///                                         tensors, in the gradient dtype
///     reduce   shards     all_to_all      leaves that are not kept: one per bucket and micro-step
///     reduce   shards     all_to_all      leaves that are kept: per bucket the nodes left, 4 o(r) bytes
///                                         each (leaves among them, without TP, in the gradient dtype), or
///                                         the bins; from a rank without leaves nothing
///     reduce   shards     reduce_scatter  native: fp32 sums, per bucket
///     reduce   instances  all_gather      per bucket with o > 0: the nodes left, or the bins
///     reduce   instances  reduce_scatter  native, per bucket with o > 0: shares from floor(o i / I) to
///                                         floor(o (i + 1) / I); an all_gather brings them to all
///     reduce   shards     all_gather      stage 0: the owners' sums, per bucket
///     reduce   shards     all_gather      stage 3, layer by layer: units, each time one is made whole
///     unscale  all        all_reduce      one word; enqueued three, with a digest of the scalars and its complement
///     norm     shards     all_reduce      23 words for each clip group, with the form inf 1; not in stage 0
///     norm     tp         all_reduce      the same, in any stage
///     update   shards, tp all_reduce      rules with trust ratios (R6): 46 words for each tensor;
///                                         over the shards not in stage 0
///     update   shards     all_to_all      rule muon (R28), not in stage 0: per batch of matrices that moves, elements
///                                         of directions to the ranks that compute, 4 bytes each; with owners of
///                                         matrices another one, with results
///     update   tp         all_gather      rule muon: per batch, directions of matrices that TP ranks split
///     update   shards, tp all_reduce      state with scales (R25): a word for each block that a boundary of owners or
///                                         TP ranks goes through, and each buffer; over the shards not in stage 0
///     cast     shards, tp all_reduce      parameters of 8 bits (R24): a word for each block with a scale, of columns
///                                         that have their own as well; over the shards not in stage 0
///     gather   shards     all_gather      stages 1 and 2: parameters, per bucket; stage 3: persistent
///                                         tensors, if there are any; of columns with codes of their own the same
///
/// An all_gather sends a rank's block to every other rank (world - 1 messages, the bytes of a
/// ring), an all_reduce of n words all of them: 8 n (world - 1) bytes, not the 16 n (world - 1) /
/// world of a ring (common/comm/recording.hpp). Words are few, so their hops cost more than their
/// bytes [ZeRO:exchange].
/// Groups of one rank make no line. With windows a tree's nodes and leaves, sums, units and
/// parameters are read in place and make none over the shards; creating windows is set-up, as
/// groups are. On devices phase prepare goes over the communicators of the host and all others over
/// the transport.
StepTraffic predict_traffic(const PredictedStep& shape, bool skipped = false);

}  // namespace zeroproof
