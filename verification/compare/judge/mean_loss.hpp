#pragma once
// The loss of a step, of whose micro-batches every rank knows its own.

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

/// Of the micro-batches a rank has leaves of.
std::vector<MicroBatchLoss> losses_of(GradProvider& provider,
                                      Span<const std::int64_t> micro_batches);

/// The mean over all micro-batches, 0 up to (not including) `count`, in their order, whoever computed which: the bits
/// that TrainingStep::loss has, on any number of ranks. NaN if one is not known. Collective over the ranks of `ranks`.
double mean_loss(Span<const MicroBatchLoss> mine, std::int64_t count, Communicator& ranks);

}  // namespace zeroproof::verification
