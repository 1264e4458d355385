#pragma once
// The loss of a step from the micro-batches of all ranks.

#include <cstdint>
#include <vector>

#include "common/base/span.hpp"
#include "common/comm/communicator.hpp"
#include "verification/training/gradients/grad_cache.hpp"

namespace zeroproof::verification {

struct MicroBatchLoss {
  std::int64_t micro_batch = 0;
  double value = 0;  ///< in nats per byte, or as recorded; NaN if nothing is known
};

/// Losses of the micro-batches of a rank.
std::vector<MicroBatchLoss> losses_of(GradProvider& provider,
                                      Span<const std::int64_t> micro_batches);

/// The mean over micro-batches 0 to count - 1, added in this order on any number of ranks: the bits
/// of TrainingStep::loss. NaN if one is unknown. Collective over the ranks of `ranks`.
double mean_loss(Span<const MicroBatchLoss> mine, std::int64_t count, Communicator& ranks);

}  // namespace zeroproof::verification
